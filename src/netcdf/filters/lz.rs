//! What the formats of the Lempel-Ziv family share: bytes that repeat earlier output.

/// Appends `length` bytes that start `distance` bytes before the end of `out`. `None` if that is
/// before `start`, where the output of the stream begins.
pub(super) fn repeat(
    out: &mut Vec<u8>,
    start: usize,
    distance: usize,
    length: usize,
) -> Option<()> {
    let from = out.len().checked_sub(distance).filter(|from| *from >= start && distance > 0)?;
    let mut missing = length;
    while missing > 0 {
        // The output repeats with this distance, so that each round can copy all of it.
        let take = missing.min(out.len().saturating_sub(from));
        out.extend_from_within(from..from.saturating_add(take));
        missing = missing.saturating_sub(take);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_may_overlap_itself_but_not_reach_before_the_start() {
        let mut out = b"xxabc".to_vec();
        repeat(&mut out, 2, 3, 8).unwrap();
        assert_eq!(out, b"xxabcabcabcab");
        assert_eq!(repeat(&mut out, 2, 12, 1), None);
        assert_eq!(repeat(&mut out, 2, 0, 1), None);
        assert_eq!(repeat(&mut out, 0, 14, 1), None);
    }
}
