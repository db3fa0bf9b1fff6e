//! What the order of sending promises.

use std::time::{Duration, Instant};

use super::{Failure, Job, Order, Outcome, Pending, Ticket};
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

/// Of everything.
fn flush(order: &mut Order) -> Ticket {
    order.flush(&Location::root())
}

/// Sends everything that may go at `now`, each successfully and before the next is asked for.
fn drain(order: &mut Order, now: Instant) -> Vec<String> {
    let mut sent = vec![];
    while let Some(job) = order.next(now) {
        match job {
            Job::Put(id, path) => {
                sent.push(format!("put {path}"));
                order.put_ended(id, &Outcome::Done, Some(path));
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
    assert_eq!(order.next_due(start), Some(soon));
    assert_eq!(drain(&mut order, soon), ["put a.zarr/x/c/0"]);
    let later = start + Duration::from_secs(2);
    assert_eq!(drain(&mut order, later), ["put a.zarr/x/zarr.json", "put a.zarr/zarr.json"]);
    assert_eq!(order.len(), 0);
}

#[test]
fn a_document_waits_for_every_object_below_it_even_at_a_flush() {
    let (mut order, start) = released(&["a.zarr/zarr.json", "a.zarr/x/zarr.json", "a.zarr/x/c/0"]);
    let target = flush(&mut order);
    let Some(Job::Put(chunk, path)) = order.next(start) else { panic!("nothing to send") };
    assert_eq!(path, at("a.zarr/x/c/0"));
    assert_eq!(order.next(start), None, "documents must wait while the chunk is on its way");
    order.put_ended(chunk, &Outcome::Done, Some(path));
    assert_eq!(drain(&mut order, start), ["put a.zarr/x/zarr.json", "put a.zarr/zarr.json"]);
    assert!(!order.is_outstanding(target));
}

#[test]
fn version_two_documents_of_one_folder_go_in_order() {
    let (mut order, start) =
        released(&["a.zarr/.zmetadata", "a.zarr/.zgroup", "a.zarr/x/.zarray", "a.zarr/x/.zattrs"]);
    flush(&mut order);
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
    order.cancelled(FileId(2), again);
    assert_eq!(order.next(start + Duration::from_millis(60)), None);
    assert_eq!(drain(&mut order, again + Duration::from_millis(50)), ["put a/x"]);
}

#[test]
fn a_file_released_while_it_is_on_its_way_goes_again_with_its_new_content() {
    let (mut order, start) = released(&["a/x"]);
    flush(&mut order);
    let Some(Job::Put(id, path)) = order.next(start) else { panic!("nothing to send") };
    order.released(id, path.clone(), start);
    assert_eq!(order.next(start), None);
    let target = flush(&mut order);
    order.put_ended(id, &Outcome::Done, Some(path));
    assert!(order.is_outstanding(target));
    assert_eq!(drain(&mut order, start), ["put a/x"]);
    assert!(!order.is_outstanding(target));
}

#[test]
fn deleting_a_document_is_a_barrier_for_all_below_it() {
    let (mut order, start) = released(&["a.zarr/x/c/0", "other/y"]);
    assert!(order.delete(&at("a.zarr/zarr.json"), None, start));
    assert!(order.delete(&at("a.zarr/x/c/1"), None, start));
    flush(&mut order);
    assert_eq!(order.next(start), Some(Job::Delete(vec![at("a.zarr/zarr.json")])));
    assert_eq!(drain(&mut order, start), ["put other/y"], "only what is elsewhere may go");
    order.delete_ended(&at("a.zarr/zarr.json"), Outcome::Done);
    assert_eq!(drain(&mut order, start), ["delete a.zarr/x/c/1", "put a.zarr/x/c/0"]);
}

#[test]
fn a_chunk_written_again_before_its_deletion_was_sent_is_put_only() {
    let now = Clock::manual().now();
    let mut order = Order::default();
    assert!(order.delete(&at("a.zarr/x/c/0"), None, now));
    assert_eq!(order.released(FileId(1), at("a.zarr/x/c/0"), now), Some(at("a.zarr/x/c/0")));
    flush(&mut order);
    assert_eq!(drain(&mut order, now), ["put a.zarr/x/c/0"]);
}

#[test]
fn a_failed_chunk_holds_back_its_documents_and_nothing_else_and_goes_again_at_a_flush() {
    let (mut order, start) = released(&["a.zarr/zarr.json", "a.zarr/x/c/0", "b.zarr/zarr.json"]);
    let target = flush(&mut order);
    let Some(Job::Put(id, path)) = order.next(start) else { panic!("nothing to send") };
    order.put_ended(id, &Outcome::Failed(failure()), Some(path.clone()));
    assert_eq!(drain(&mut order, start), ["put b.zarr/zarr.json"]);
    assert!(!order.is_outstanding(target), "a flush does not wait for what has failed");
    let failed = order.pending().into_iter().filter(|pending| pending.failure.is_some());
    let failed: Vec<Location> = failed.map(|pending| pending.location).collect();
    assert_eq!(failed, [at("a.zarr/x/c/0"), at("a.zarr/zarr.json")]);
    flush(&mut order);
    assert_eq!(drain(&mut order, start), ["put a.zarr/x/c/0", "put a.zarr/zarr.json"]);
}

#[test]
fn names_that_only_begin_alike_do_not_hold_each_other_up() {
    let (mut order, start) = released(&["a/zarr.json", "a-b/c/0", "a.x/c/0"]);
    flush(&mut order);
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
    flush(&mut order);
    let Some(Job::Put(id, path)) = order.next(start) else { panic!("nothing to send") };
    order.put_ended(id, &Outcome::Changed, Some(path.clone()));
    assert_eq!(order.next(start), None);
    order.released(id, path, start);
    flush(&mut order);
    assert_eq!(drain(&mut order, start), ["put a/x"]);
}

#[test]
fn a_file_renamed_while_it_is_sent_goes_again_under_its_new_name() {
    let (mut order, start) = released(&["a/x"]);
    flush(&mut order);
    let Some(Job::Put(id, _)) = order.next(start) else { panic!("nothing to send") };
    order.put_ended(id, &Outcome::Changed, Some(at("a/y")));
    flush(&mut order);
    assert_eq!(drain(&mut order, start), ["put a/y"]);
}

/// The text of what holds a pending file up, by its location.
fn waits(order: &Order) -> Vec<(String, String)> {
    let waits = |pending: Pending| Some((pending.location.to_string(), pending.waits_for?.into()));
    order.pending().into_iter().filter_map(waits).collect()
}

#[test]
fn a_document_waits_for_what_is_open_for_writing_below_it_and_says_so() {
    let (mut order, start) =
        released(&["a.zarr/zarr.json", "a.zarr/x/zarr.json", "b.zarr/zarr.json"]);
    order.opened(FileId(9), at("a.zarr/x/c/0.partial"), start);
    let late = start + Duration::from_hours(1);
    assert_eq!(drain(&mut order, late), ["put b.zarr/zarr.json"]);
    let ticket = flush(&mut order);
    assert_eq!(drain(&mut order, late), [""; 0]);
    assert!(!order.is_outstanding(ticket), "a flush does not wait for a program");
    let open = "a.zarr/x/c/0.partial".to_owned();
    let held = |path: &str| (path.to_owned(), open.clone());
    assert_eq!(waits(&order), [held("a.zarr/x/zarr.json"), held("a.zarr/zarr.json")]);
    assert_eq!(order.len(), 2, "what is open and was never closed is not outstanding");
    // Its name is a temporary one until it is complete.
    order.opened(FileId(9), at("a.zarr/x/c/0"), late);
    order.released(FileId(9), at("a.zarr/x/c/0"), late);
    assert_eq!(
        drain(&mut order, late + Duration::from_millis(50)),
        ["put a.zarr/x/c/0", "put a.zarr/x/zarr.json", "put a.zarr/zarr.json"]
    );
}

#[test]
fn what_is_opened_or_closed_after_a_flush_holds_up_none_of_its_documents() {
    let (mut order, start) = released(&["a.zarr/zarr.json", "a.zarr/x/c/0"]);
    let ticket = flush(&mut order);
    order.opened(FileId(8), at("a.zarr/x/c/1"), start);
    order.released(FileId(9), at("a.zarr/x/c/2"), start);
    assert_eq!(drain(&mut order, start), ["put a.zarr/x/c/0", "put a.zarr/zarr.json"]);
    assert!(!order.is_outstanding(ticket));
    assert_eq!(order.len(), 1);
}

#[test]
fn a_closed_file_that_is_opened_again_before_it_was_sent_is_not_taken_for_sent() {
    let (mut order, start) = released(&["a.zarr/zarr.json", "a.zarr/x/c/0"]);
    order.opened(FileId(2), at("a.zarr/x/c/0"), start);
    let ticket = flush(&mut order);
    assert_eq!(drain(&mut order, start), [""; 0]);
    assert!(!order.is_outstanding(ticket));
    assert_eq!(order.pending().len(), 2);
    order.released(FileId(2), at("a.zarr/x/c/0"), start);
    assert!(order.is_outstanding(ticket));
    assert_eq!(drain(&mut order, start), ["put a.zarr/x/c/0", "put a.zarr/zarr.json"]);
}

#[test]
fn a_file_opened_while_it_is_sent_blocks_documents_only_until_it_is_closed() {
    for outcome in [Outcome::Done, Outcome::Changed, Outcome::Failed(failure())] {
        let (mut order, start) = released(&["a.zarr/zarr.json", "a.zarr/x/c/0"]);
        let late = start + Duration::from_hours(1);
        let Some(Job::Put(id, path)) = order.next(late) else { panic!("nothing to send") };
        order.opened(id, path.clone(), start);
        order.put_ended(id, &outcome, Some(path.clone()));
        assert_eq!(order.next(late), None);
        order.released(id, path, start);
        assert_eq!(
            drain(&mut order, late),
            ["put a.zarr/x/c/0", "put a.zarr/zarr.json"],
            "{outcome:?}"
        );
    }
}

#[test]
fn a_flush_of_a_path_makes_only_that_due_and_waits_for_no_more() {
    let (mut order, start) = released(&["a/x", "a/sub/y", "b/x", "a-b"]);
    assert!(order.delete(&at("a/sub/gone"), None, start));
    assert!(order.delete(&at("b/gone"), None, start));
    let ticket = order.flush(&at("a/sub"));
    assert_eq!(drain(&mut order, start), ["delete a/sub/gone", "put a/sub/y"]);
    assert!(!order.is_outstanding(ticket));
    let ticket = order.flush(&at("a/x"));
    assert!(order.is_outstanding(ticket));
    assert_eq!(drain(&mut order, start), ["put a/x"]);
    assert!(!order.is_outstanding(ticket));
    assert_eq!(order.len(), 3);
}

#[test]
fn a_flush_of_documents_waits_for_chunks_that_were_not_asked_for() {
    let (mut order, start) = released(&["a.zarr/zarr.json", "a.zarr/x/c/0"]);
    let ticket = order.flush(&at("a.zarr/zarr.json"));
    assert_eq!(order.next(start), None);
    assert!(order.is_outstanding(ticket));
    let soon = start + Duration::from_millis(50);
    assert_eq!(drain(&mut order, soon), ["put a.zarr/x/c/0", "put a.zarr/zarr.json"]);
    assert!(!order.is_outstanding(ticket));
}

#[test]
fn deletions_are_gathered_and_documents_go_first() {
    let start = Clock::manual().now();
    let mut order = Order::default();
    let ms = |ms| start + Duration::from_millis(ms);
    assert!(order.delete(&at("a.zarr/x/c/0"), None, start));
    assert!(order.delete(&at("a.zarr/x/c/1"), None, ms(10)));
    assert!(order.delete(&at("a.zarr/x/zarr.json"), None, ms(20)));
    assert!(order.delete(&at("a.zarr/zarr.json"), None, ms(30)));
    assert_eq!(order.next(ms(30)), None);
    assert_eq!(order.next_due(ms(30)), Some(ms(80)));
    let documents = vec![at("a.zarr/x/zarr.json"), at("a.zarr/zarr.json")];
    assert_eq!(order.next(ms(80)), Some(Job::Delete(documents.clone())));
    assert_eq!(order.next(ms(2000)), None, "chunks wait until their documents are gone");
    for document in &documents {
        order.delete_ended(document, Outcome::Done);
    }
    let chunks = vec![at("a.zarr/x/c/0"), at("a.zarr/x/c/1")];
    assert_eq!(order.next(ms(2000)), Some(Job::Delete(chunks)));
}

#[test]
fn a_hundred_thousand_deletions_are_a_hundred_requests_and_do_not_wait_for_ever() {
    let start = Clock::manual().now();
    let mut order = Order::default();
    for number in 0..100_000_u64 {
        // A hundred a second: never quiet for long enough.
        let now = start + Duration::from_millis(10 * number);
        assert!(order.delete(&at(&format!("x/{number}")), None, now));
        if number == 3000 {
            assert!(matches!(order.next(now), Some(Job::Delete(batch)) if batch.len() == 1000));
        }
    }
    let end = start + Duration::from_hours(1);
    let mut requests = 1;
    while let Some(Job::Delete(batch)) = order.next(end) {
        for location in &batch {
            order.delete_ended(location, Outcome::Done);
        }
        requests += 1;
    }
    assert_eq!((requests, order.len()), (100, 1000));
}

#[test]
fn a_new_object_waits_for_a_deletion_of_its_key_that_is_on_its_way() {
    let (mut order, start) = released(&[]);
    assert!(order.delete(&at("a/x"), None, start));
    let ticket = flush(&mut order);
    assert_eq!(order.next(start), Some(Job::Delete(vec![at("a/x")])));
    assert_eq!(order.released(FileId(1), at("a/x"), start), None);
    flush(&mut order);
    assert_eq!(order.next(start), None);
    order.delete_ended(&at("a/x"), Outcome::Done);
    assert!(!order.is_outstanding(ticket));
    assert_eq!(drain(&mut order, start), ["put a/x"]);
}

#[test]
fn a_deletion_waits_for_a_put_of_its_key_that_is_on_its_way() {
    let (mut order, start) = released(&["a/x"]);
    flush(&mut order);
    let Some(Job::Put(id, path)) = order.next(start) else { panic!("nothing to send") };
    assert!(order.delete(&path, None, start));
    order.cancelled(id, start);
    flush(&mut order);
    assert_eq!(order.next(start), None);
    order.put_ended(id, &Outcome::Done, None);
    assert_eq!(drain(&mut order, start), ["delete a/x"]);
}

#[test]
fn a_file_that_gets_a_name_that_is_not_sent_while_it_is_sent_does_not_go_again() {
    let (mut order, start) = released(&["a/x"]);
    flush(&mut order);
    let Some(Job::Put(id, _)) = order.next(start) else { panic!("nothing to send") };
    order.cancelled(id, start);
    order.put_ended(id, &Outcome::Changed, Some(at("a/x.partial")));
    flush(&mut order);
    assert_eq!(order.next(start), None);
    assert_eq!(order.len(), 0);
}

#[test]
fn a_failed_deletion_of_a_document_holds_back_what_is_below_and_no_flush() {
    let (mut order, start) = released(&["a.zarr/x/c/0"]);
    assert!(order.delete(&at("a.zarr/zarr.json"), None, start));
    let ticket = flush(&mut order);
    assert_eq!(order.next(start), Some(Job::Delete(vec![at("a.zarr/zarr.json")])));
    assert!(order.is_outstanding(ticket));
    order.delete_ended(&at("a.zarr/zarr.json"), Outcome::Failed(failure()));
    assert_eq!(order.next(start), None);
    assert!(!order.is_outstanding(ticket));
    assert!(order.pending().iter().all(|pending| pending.failure.is_some()));
    flush(&mut order);
    assert_eq!(drain(&mut order, start), ["delete a.zarr/zarr.json", "put a.zarr/x/c/0"]);
}

#[test]
fn documents_that_wait_for_a_program_do_not_keep_others_from_their_time() {
    let (mut order, start) = released(&["a.zarr/zarr.json"]);
    order.opened(FileId(8), at("a.zarr/x/c/0"), start);
    let later = start + Duration::from_secs(10);
    order.released(FileId(9), at("b.zarr/zarr.json"), later);
    assert_eq!(order.next(later), None);
    assert_eq!(order.next_due(later), Some(later + Duration::from_secs(2)));
}

#[test]
fn a_deletion_that_is_on_its_way_serves_who_asks_again_and_nothing_overtakes_it() {
    let (mut order, start) = (Order::default(), Clock::manual().now());
    assert!(order.delete(&at("a/x"), None, start));
    flush(&mut order);
    assert_eq!(order.next(start), Some(Job::Delete(vec![at("a/x")])));
    // The name is taken again, and deleted again, while the request is on the wire.
    assert_eq!(order.released(FileId(1), at("a/x"), start), None);
    order.cancelled(FileId(1), start);
    assert!(!order.delete(&at("a/x"), None, start), "the journal owes no second one");
    // And again: the object must not arrive before the deletion was answered.
    assert_eq!(order.released(FileId(2), at("a/x"), start), None);
    flush(&mut order);
    assert_eq!(order.next(start), None);
    order.delete_ended(&at("a/x"), Outcome::Done);
    assert_eq!(drain(&mut order, start), ["put a/x"]);
    assert_eq!(order.len(), 0, "nothing is left that would delete the new object");
}

#[test]
fn a_deletion_that_is_told_late_spares_what_has_the_name_by_now() {
    let (mut order, start) = released(&["a/x", "a.zarr/zarr.json"]);
    assert!(!order.delete(&at("a/x"), Some(FileId(1)), start), "it will be replaced");
    // A document is deleted first all the same: what lies below it must not be shown by it.
    assert!(order.delete(&at("a.zarr/zarr.json"), Some(FileId(2)), start));
    flush(&mut order);
    let sent = drain(&mut order, start);
    assert_eq!(sent, ["delete a.zarr/zarr.json", "put a/x", "put a.zarr/zarr.json"]);
    // On its way already: a deletion would come after it.
    assert_eq!(order.released(FileId(3), at("b.zarr/zarr.json"), start), None);
    flush(&mut order);
    assert_eq!(order.next(start), Some(Job::Put(FileId(3), at("b.zarr/zarr.json"))));
    assert!(!order.delete(&at("b.zarr/zarr.json"), Some(FileId(3)), start));
}
