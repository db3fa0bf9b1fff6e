//! The few things we read ourselves in a store's XML replies: error codes, failed keys of a bulk
//! delete, and keys of a listing that the client library cannot hold.
//!
//! The library refuses a whole page for one key such as `a//b`, and shows a folder marker `a/` as
//! an object `a`; [`keep_representable`] takes such entries out before it sees them.

use std::ops::Range;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::location::Location;

/// What a store says about a failed request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ErrorReply {
    /// Such as `NoSuchBucket`.
    pub(super) code: String,
    /// For people.
    pub(super) message: String,
    /// The key, in a reply about several.
    pub(super) key: String,
}

/// Calls `visit` with the names of the open elements, the text and the byte span of each element,
/// innermost first. Ends early at what is not XML.
fn walk(document: &[u8], mut visit: impl FnMut(&[String], &str, Range<usize>)) {
    let mut reader = Reader::from_reader(document);
    let mut names: Vec<String> = Vec::new();
    let mut texts: Vec<(usize, String)> = Vec::new();
    let mut before = 0;
    loop {
        let Ok(event) = reader.read_event() else { return };
        let after = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
        match event {
            Event::Start(start) => {
                names.push(String::from_utf8_lossy(start.local_name().as_ref()).into_owned());
                texts.push((before, String::new()));
            }
            Event::Empty(empty) => {
                names.push(String::from_utf8_lossy(empty.local_name().as_ref()).into_owned());
                visit(&names, "", before..after);
                names.pop();
            }
            Event::End(_) => {
                let Some((start, text)) = texts.pop() else { return };
                visit(&names, &text, start..after);
                names.pop();
            }
            Event::Text(text) => {
                if let (Some((_, open)), Ok(text)) = (texts.last_mut(), text.decode()) {
                    open.push_str(&text);
                }
            }
            Event::CData(text) => {
                if let (Some((_, open)), Ok(text)) = (texts.last_mut(), text.decode()) {
                    open.push_str(&text);
                }
            }
            Event::GeneralRef(reference) => {
                let Some((_, open)) = texts.last_mut() else { return };
                if let Ok(Some(character)) = reference.resolve_char_ref() {
                    open.push(character);
                } else if let Ok(name) = reference.decode() {
                    open.push_str(quick_xml::escape::resolve_xml_entity(&name).unwrap_or_default());
                }
            }
            Event::Eof => return,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
        before = after;
    }
}

/// The error a reply consists of; `None` if its outermost element is another.
pub(super) fn error_reply(document: &[u8]) -> Option<ErrorReply> {
    let mut reply = ErrorReply::default();
    let mut is_error = false;
    walk(document, |path, text, _| match path {
        [root] => is_error = root == "Error",
        [root, leaf] if root == "Error" => fill(&mut reply, leaf, text),
        _ => {}
    });
    is_error.then_some(reply)
}

/// The keys a bulk delete could not remove, with the reason for each.
pub(super) fn failed_deletes(document: &[u8]) -> Vec<ErrorReply> {
    let mut failed = Vec::new();
    let mut current = ErrorReply::default();
    walk(document, |path, text, _| match path {
        [_, error, leaf] if error == "Error" => fill(&mut current, leaf, text),
        [_, error] if error == "Error" => failed.push(std::mem::take(&mut current)),
        _ => {}
    });
    failed
}

fn fill(reply: &mut ErrorReply, leaf: &str, text: &str) {
    match leaf {
        "Code" => text.clone_into(&mut reply.code),
        "Message" => text.clone_into(&mut reply.message),
        "Key" => text.clone_into(&mut reply.key),
        _ => {}
    }
}

/// The listing without entries whose key is not a [`Location`], and those keys. `None` instead of
/// a listing that can stay as it is.
pub(super) fn keep_representable(document: &[u8]) -> (Option<Vec<u8>>, Vec<String>) {
    let mut dropped: Vec<Range<usize>> = Vec::new();
    let mut keys = Vec::new();
    let mut current = String::new();
    walk(document, |path, text, span| {
        let [.., parent, leaf] = path else { return };
        match (parent.as_str(), leaf.as_str()) {
            ("Contents", "Key")
            | ("CommonPrefixes", "Prefix")
            | ("Blob" | "BlobPrefix", "Name") => {
                text.clone_into(&mut current);
            }
            (_, entry @ ("Contents" | "CommonPrefixes" | "Blob" | "BlobPrefix")) => {
                let key = std::mem::take(&mut current);
                if !is_representable(&key, entry.ends_with("Prefixes") || entry == "BlobPrefix") {
                    dropped.push(span);
                    keys.push(key);
                }
            }
            _ => {}
        }
    });
    if dropped.is_empty() {
        return (None, keys);
    }
    let mut kept = Vec::with_capacity(document.len());
    let mut from = 0;
    for span in dropped {
        kept.extend_from_slice(document.get(from..span.start).unwrap_or_default());
        from = span.end;
    }
    kept.extend_from_slice(document.get(from..).unwrap_or_default());
    (Some(kept), keys)
}

fn is_representable(key: &str, is_folder: bool) -> bool {
    let key = if is_folder { key.strip_suffix('/').unwrap_or(key) } else { key };
    // The library's parser drops white space at the ends of a text.
    !key.is_empty() && Location::parse(key).is_ok() && key.trim() == key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_file_can_have_are_taken_out_of_a_listing() {
        let page = b"<?xml version=\"1.0\"?><ListBucketResult><Name>b</Name><Prefix>a/</Prefix>\
            <Contents><Key>a/</Key><Size>0</Size></Contents>\
            <Contents><Key>a/x &amp; &#233;</Key><Size>1</Size></Contents>\
            <Contents><Key>a//b</Key><Size>2</Size></Contents>\
            <CommonPrefixes><Prefix>a/c/</Prefix></CommonPrefixes>\
            <CommonPrefixes><Prefix>a//</Prefix></CommonPrefixes></ListBucketResult>";
        let (kept, keys) = keep_representable(page);
        assert_eq!(keys, ["a/", "a//b", "a//"]);
        let kept = String::from_utf8(kept.unwrap()).unwrap();
        assert_eq!(
            kept,
            "<?xml version=\"1.0\"?><ListBucketResult><Name>b</Name><Prefix>a/</Prefix>\
             <Contents><Key>a/x &amp; &#233;</Key><Size>1</Size></Contents>\
             <CommonPrefixes><Prefix>a/c/</Prefix></CommonPrefixes></ListBucketResult>"
        );
        assert_eq!(keep_representable(kept.as_bytes()), (None, Vec::new()));
    }

    #[test]
    fn an_error_reply_gives_code_and_message() {
        let reply =
            error_reply(b"<Error><Code>NoSuchBucket</Code><Message>No &lt;b&gt;</Message></Error>");
        let reply = reply.unwrap();
        assert_eq!((reply.code.as_str(), reply.message.as_str()), ("NoSuchBucket", "No <b>"));
        assert_eq!(error_reply(b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>"), None);
        assert_eq!(error_reply(b"<Error><Code>cut"), None);
        assert_eq!(error_reply(b"{\"error\": 1}"), None);
    }

    #[test]
    fn a_bulk_delete_names_the_keys_it_kept() {
        let failed = failed_deletes(
            b"<DeleteResult><Deleted><Key>a</Key></Deleted>\
              <Error><Key>b</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>",
        );
        assert_eq!(failed.len(), 1);
        assert_eq!((failed[0].key.as_str(), failed[0].code.as_str()), ("b", "AccessDenied"));
    }
}
