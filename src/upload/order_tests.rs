//! What the order of sending promises.

use std::time::{Duration, Instant};

use super::order::{Failure, Job, Order, Outcome};
use crate::base::clock::Clock;
use crate::staging::FileId;
use crate::store::Location;

fn at(text: &str) -> Location {
    Location::parse(text).unwrap()
}

fn failure() -> Failure {
    Failure { reason: "403".into(), since_ms: 0 }
}

/// An order with these files released at time zero, numbered from 1.
fn released(paths: &[&str]) -> (Order, Instant) {
    let now = Clock::manual().now();
    let mut order = Order::default();
    for (number, path) in (1..).zip(paths) {
        assert_eq!(order.released(FileId(number), at(path), now), None);
    }
    (order, now)
}

/// Sends everything that may go at `now`, each successfully and before the next is asked for.
fn drain(order: &mut Order, now: Instant) -> Vec<String> {
    let mut sent = vec![];
    while let Some(job) = order.next(now) {
        match job {
            Job::Put(id, path) => {
                sent.push(format!("put {path}"));
                order.put_ended(id, Outcome::Done, Some(path));
            }
            Job::Delete(locations) => {
                for location in locations {
                    sent.push(format!("delete {location}"));
                    order.delete_ended(&location, Outcome::Done);
                }
            }
        }
    }
    sent
}

#[test]
fn chunks_go_after_their_quiet_time_and_documents_after_the_hierarchy_is_quiet() {
    let (mut order, start) = released(&["a.zarr/zarr.json", "a.zarr/x/zarr.json", "a.zarr/x/c/0"]);
    assert_eq!(order.next(start), None);
    let soon = start + Duration::from_millis(50);
    assert_eq!(order.next_due(), Some(soon));
    assert_eq!(drain(&mut order, soon), ["put a.zarr/x/c/0"]);
    let later = start + Duration::from_secs(2);
    assert_eq!(drain(&mut order, later), ["put a.zarr/x/zarr.json", "put a.zarr/zarr.json"]);
    assert_eq!(order.len(), 0);
}

#[test]
fn a_document_waits_for_every_object_below_it_even_at_a_flush() {
    let (mut order, start) = released(&["a.zarr/zarr.json", "a.zarr/x/zarr.json", "a.zarr/x/c/0"]);
    let target = order.flush();
    let Some(Job::Put(chunk, path)) = order.next(start) else { panic!("nothing to send") };
    assert_eq!(path, at("a.zarr/x/c/0"));
    assert_eq!(order.next(start), None, "documents must wait while the chunk is on its way");
    order.put_ended(chunk, Outcome::Done, Some(path));
    assert_eq!(drain(&mut order, start), ["put a.zarr/x/zarr.json", "put a.zarr/zarr.json"]);
    assert!(!order.is_outstanding(target));
}

#[test]
fn version_two_documents_of_one_folder_go_in_order() {
    let (mut order, start) =
        released(&["a.zarr/.zmetadata", "a.zarr/.zgroup", "a.zarr/x/.zarray", "a.zarr/x/.zattrs"]);
    order.flush();
    assert_eq!(
        drain(&mut order, start),
        [
            "put a.zarr/x/.zattrs",
            "put a.zarr/x/.zarray",
            "put a.zarr/.zgroup",
            "put a.zarr/.zmetadata"
        ]
    );
}

#[test]
fn rewrites_before_the_quiet_time_cost_one_put_and_a_cancelled_file_none() {
    let (mut order, start) = released(&["a/x", "a/y"]);
    let again = start + Duration::from_millis(40);
    order.released(FileId(1), at("a/x"), again);
    order.cancelled(FileId(2));
    assert_eq!(order.next(start + Duration::from_millis(60)), None);
    assert_eq!(drain(&mut order, again + Duration::from_millis(50)), ["put a/x"]);
}

#[test]
fn a_file_released_while_it_is_on_its_way_goes_again_with_its_new_content() {
    let (mut order, start) = released(&["a/x"]);
    order.flush();
    let Some(Job::Put(id, path)) = order.next(start) else { panic!("nothing to send") };
    order.released(id, path.clone(), start);
    assert_eq!(order.next(start), None);
    let target = order.flush();
    order.put_ended(id, Outcome::Done, Some(path));
    assert!(order.is_outstanding(target));
    assert_eq!(drain(&mut order, start), ["put a/x"]);
    assert!(!order.is_outstanding(target));
}

#[test]
fn deleting_a_document_is_a_barrier_for_all_below_it() {
    let (mut order, start) = released(&["a.zarr/x/c/0", "other/y"]);
    order.delete(&at("a.zarr/zarr.json"));
    order.delete(&at("a.zarr/x/c/1"));
    order.flush();
    assert_eq!(order.next(start), Some(Job::Delete(vec![at("a.zarr/zarr.json")])));
    assert_eq!(drain(&mut order, start), ["put other/y"], "only what is elsewhere may go");
    order.delete_ended(&at("a.zarr/zarr.json"), Outcome::Done);
    assert_eq!(drain(&mut order, start), ["delete a.zarr/x/c/1", "put a.zarr/x/c/0"]);
}

#[test]
fn a_chunk_written_again_before_its_deletion_was_sent_is_put_only() {
    let now = Clock::manual().now();
    let mut order = Order::default();
    order.delete(&at("a.zarr/x/c/0"));
    assert_eq!(order.released(FileId(1), at("a.zarr/x/c/0"), now), Some(at("a.zarr/x/c/0")));
    order.flush();
    assert_eq!(drain(&mut order, now), ["put a.zarr/x/c/0"]);
}

#[test]
fn a_failed_chunk_holds_back_its_documents_and_nothing_else_and_goes_again_at_a_flush() {
    let (mut order, start) = released(&["a.zarr/zarr.json", "a.zarr/x/c/0", "b.zarr/zarr.json"]);
    let target = order.flush();
    let Some(Job::Put(id, path)) = order.next(start) else { panic!("nothing to send") };
    order.put_ended(id, Outcome::Failed(failure()), Some(path.clone()));
    assert_eq!(drain(&mut order, start), ["put b.zarr/zarr.json"]);
    assert!(!order.is_outstanding(target), "a flush does not wait for what has failed");
    let failed = order.pending().into_iter().filter(|pending| pending.failure.is_some());
    let failed: Vec<Location> = failed.map(|pending| pending.location).collect();
    assert_eq!(failed, [at("a.zarr/x/c/0"), at("a.zarr/zarr.json")]);
    order.flush();
    assert_eq!(drain(&mut order, start), ["put a.zarr/x/c/0", "put a.zarr/zarr.json"]);
}

#[test]
fn names_that_only_begin_alike_do_not_hold_each_other_up() {
    let (mut order, start) = released(&["a/zarr.json", "a-b/c/0", "a.x/c/0"]);
    order.flush();
    let mut kept = vec![];
    while let Some(Job::Put(_, path)) = order.next(start) {
        kept.push(path.to_string());
    }
    kept.sort();
    assert_eq!(kept, ["a-b/c/0", "a.x/c/0", "a/zarr.json"]);
}

#[test]
fn a_file_opened_for_writing_while_it_is_sent_waits_for_its_close() {
    let (mut order, start) = released(&["a/x"]);
    order.flush();
    let Some(Job::Put(id, path)) = order.next(start) else { panic!("nothing to send") };
    order.put_ended(id, Outcome::Changed, Some(path.clone()));
    assert_eq!(order.next(start), None);
    order.released(id, path, start);
    order.flush();
    assert_eq!(drain(&mut order, start), ["put a/x"]);
}

#[test]
fn a_file_renamed_while_it_is_sent_goes_again_under_its_new_name() {
    let (mut order, start) = released(&["a/x"]);
    order.flush();
    let Some(Job::Put(id, _)) = order.next(start) else { panic!("nothing to send") };
    order.put_ended(id, Outcome::Changed, Some(at("a/y")));
    order.flush();
    assert_eq!(drain(&mut order, start), ["put a/y"]);
}
