//! In which order raw files reach the bucket, as the bucket's own log tells it.

use zarrmount::base::clock::Clock;

use crate::mount::{Mount, NEW, Settings, TRUNCATE, at};
use crate::support::{LoggedRequest, S3Server};

/// Time passes only when a test says so: what goes, goes by a flush.
const STILL: fn() -> Settings = || Settings { clock: Clock::manual, ..Settings::default() };

/// The only request that changes this key (without the prefix).
fn change_of(server: &S3Server, method: &str, key: &str) -> LoggedRequest {
    let key = format!("p/{key}");
    let found: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.method == method && request.key == key)
        .collect();
    assert_eq!(found.len(), 1, "{method} {key}");
    found[0].clone()
}

/// Asserts that `second` was sent after `first` was answered.
fn assert_after(second: &LoggedRequest, first: &LoggedRequest) {
    assert!(first.answered.is_some_and(|answered| answered < second.arrived));
}

#[tokio::test]
async fn chunks_go_before_documents_and_children_before_parents() {
    let server = S3Server::start();
    let mount = Mount::on_s3(&server, STILL()).await;
    mount.mkdir("x.zarr").await.unwrap();
    mount.copy_in("x.zarr/zarr.json", b"{}").await;
    mount.mkdir("x.zarr/v").await.unwrap();
    mount.copy_in("x.zarr/v/zarr.json", b"{}").await;
    mount.copy_in("x.zarr/v/0", b"chunk").await;
    mount.flush().await;
    let chunk = change_of(&server, "PUT", "x.zarr/v/0");
    let array = change_of(&server, "PUT", "x.zarr/v/zarr.json");
    assert_after(&array, &chunk);
    assert_after(&change_of(&server, "PUT", "x.zarr/zarr.json"), &array);
}

#[tokio::test]
async fn a_document_does_not_go_before_a_chunk_whose_writer_has_it_open() {
    let server = S3Server::start();
    let mount = Mount::on_s3(&server, STILL()).await;
    mount.mkdir("x.zarr").await.unwrap();
    mount.copy_in("x.zarr/zarr.json", b"{}").await;
    mount.mkdir("x.zarr/v").await.unwrap();
    let (_, opened) = mount.create("x.zarr/v/0.a1.partial", NEW).await.unwrap();
    mount.write(opened, 0, b"chunk");
    mount.queue.flush().await;
    assert_eq!(server.keys(), [""; 0]);
    let pending = mount.queue.pending();
    assert_eq!(pending[0].waits_for, Some(at("x.zarr/v/0.a1.partial")), "and it is said why");
    mount.rename("x.zarr/v/0.a1.partial", "x.zarr/v/0").await.unwrap();
    mount.queue.flush().await;
    assert_eq!(server.keys(), [""; 0], "a new name is no close");
    mount.close(opened).await.unwrap();
    mount.flush().await;
    let chunk = change_of(&server, "PUT", "x.zarr/v/0");
    assert_after(&change_of(&server, "PUT", "x.zarr/zarr.json"), &chunk);
}

#[tokio::test]
async fn a_chunk_that_was_opened_and_not_changed_or_was_deleted_holds_up_nothing() {
    let server = S3Server::start();
    let mount = Mount::on_s3(&server, STILL()).await;
    mount.put("x.zarr/0", b"chunk").await;
    mount.stat("x.zarr").await.unwrap();
    let unchanged = mount.open("x.zarr/0", crate::mount::UPDATE).await.unwrap();
    let (_, deleted) = mount.create("x.zarr/1", NEW).await.unwrap();
    mount.copy_in("x.zarr/zarr.json", b"{}").await;
    mount.queue.flush().await;
    assert_eq!(server.keys(), ["p/x.zarr/0"]);
    mount.close(unchanged).await.unwrap();
    mount.unlink("x.zarr/1").await.unwrap();
    mount.flush().await;
    assert_eq!(server.keys(), ["p/x.zarr/0", "p/x.zarr/zarr.json"]);
    mount.close(deleted).await.unwrap();
    mount.flush().await;
    assert_eq!(server.keys(), ["p/x.zarr/0", "p/x.zarr/zarr.json"]);
}

#[tokio::test]
async fn the_deletion_of_a_published_document_comes_before_all_that_is_new_below_it() {
    let server = S3Server::start();
    let mount = Mount::on_s3(&server, STILL()).await;
    for key in ["x.zarr/zarr.json", "x.zarr/v/zarr.json", "x.zarr/v/0", "x.zarr/v/1"] {
        mount.put(key, b"old").await;
    }
    server.clear_requests();
    // As writers do that begin anew: delete everything, then write.
    mount.remove_all("x.zarr").await;
    mount.mkdir("x.zarr").await.unwrap();
    mount.copy_in("x.zarr/zarr.json", b"new").await;
    mount.mkdir("x.zarr/v").await.unwrap();
    mount.copy_in("x.zarr/v/0", b"new").await;
    mount.copy_in("x.zarr/v/zarr.json", b"new").await;
    mount.flush().await;
    let changes = server.requests().into_iter().filter(|request| request.method != "GET");
    let changes: Vec<_> = changes.collect();
    let (documents, others) = (&changes[0], &changes[1..]);
    assert_eq!((documents.method.as_str(), documents.query.as_str()), ("POST", "delete"));
    for request in others {
        assert_after(request, documents);
    }
    // The chunk that is written again is replaced by its put, the other one is deleted.
    let deletions = changes.iter().filter(|request| request.method == "POST").count();
    assert_eq!((changes.len(), deletions), (5, 2));
    assert_eq!(server.keys(), ["p/x.zarr/v/0", "p/x.zarr/v/zarr.json", "p/x.zarr/zarr.json"]);
    assert_eq!(server.object("p/x.zarr/v/0").unwrap(), b"new");
}

#[tokio::test]
async fn a_document_that_was_never_published_is_no_barrier_and_costs_no_request() {
    let server = S3Server::start();
    let mount = Mount::on_s3(&server, STILL()).await;
    mount.mkdir("x.zarr").await.unwrap();
    mount.copy_in("x.zarr/zarr.json", b"{}").await;
    mount.unlink("x.zarr/zarr.json").await.unwrap();
    mount.copy_in("x.zarr/0", b"chunk").await;
    server.clear_requests();
    mount.flush().await;
    assert_eq!(server.requests().len(), 1);
    assert_eq!(server.keys(), ["p/x.zarr/0"]);
}

#[tokio::test]
async fn a_tree_is_deleted_by_one_request_for_its_documents_and_then_one_for_a_thousand_others() {
    let server = S3Server::start();
    let mount = Mount::on_s3(&server, STILL()).await;
    let folder = server.folder().join("p/x.zarr");
    for array in 0..5 {
        let array = folder.join(format!("v{array}"));
        std::fs::create_dir_all(&array).unwrap();
        std::fs::write(array.join("zarr.json"), "{}").unwrap();
        for chunk in 0..300 {
            std::fs::write(array.join(chunk.to_string()), "chunk").unwrap();
        }
    }
    std::fs::write(folder.join("zarr.json"), "{}").unwrap();
    server.clear_requests();
    mount.remove_all("x.zarr").await;
    mount.flush().await;
    assert_eq!(server.keys(), [""; 0]);
    let changes = server.requests().into_iter().filter(|request| request.method != "GET");
    let changes: Vec<_> = changes.collect();
    assert_eq!(changes.len(), 3);
    for request in &changes[1..] {
        assert_after(request, &changes[0]);
    }
}

#[tokio::test]
async fn a_flush_of_a_path_sends_only_what_is_there() {
    let server = S3Server::start();
    let mount = Mount::on_s3(&server, STILL()).await;
    for folder in ["a", "b"] {
        mount.mkdir(folder).await.unwrap();
        mount.copy_in(&format!("{folder}/f"), b"x").await;
    }
    mount.queue.flush_within(&at("a")).await;
    assert_eq!(server.keys(), ["p/a/f"]);
    let again = mount.open("a/f", TRUNCATE).await.unwrap();
    mount.close(again).await.unwrap();
    mount.queue.flush_within(&at("b/f")).await;
    assert_eq!(server.object("p/a/f").unwrap(), b"x");
    assert_eq!(server.keys(), ["p/a/f", "p/b/f"]);
}
