//! How many requests each thing costs.

use futures::future::join_all;
use zarrmount::namespace::Ino;

use zarrmount::base::clock::Clock;

use crate::mount::{Mount, Requests, Settings};

#[tokio::test]
async fn one_listing_answers_every_lookup_in_a_folder() {
    let mount = Mount::new().await;
    mount.put("a/sst.dat", b"1").await;
    mount.put("a/salt.dat", b"2").await;
    mount.put("a/b/c", b"3").await;
    let before = mount.requests();
    for path in ["a", "a/sst.dat", "a/salt.dat", "a/b"] {
        mount.stat(path).await.unwrap();
    }
    mount.stat("a/none").await.unwrap_err();
    assert_eq!(mount.list("a").await, ["b", "salt.dat", "sst.dat"]);
    // The root and `a`.
    let spent = mount.requests().since(before);
    assert_eq!(spent, Requests { list: 2, ..Requests::default() });
}

#[tokio::test]
async fn a_chunk_in_a_folder_that_is_not_listed_is_looked_up_and_read_by_one_get() {
    let mount = Mount::new().await;
    mount.put("x.zarr/sst/0.0", b"chunk").await;
    mount.stat("x.zarr/sst").await.unwrap();
    let before = mount.requests();
    assert_eq!(mount.stat("x.zarr/sst/0.0").await.unwrap().size, 5);
    assert_eq!(mount.read("x.zarr/sst/0.0").await.unwrap(), b"chunk");
    assert_eq!(mount.requests().since(before), Requests { get: 1, ..Requests::default() });
}

#[tokio::test]
async fn a_chunk_larger_than_a_block_is_read_block_by_block() {
    let mount = Mount::new().await;
    let data: Vec<u8> = (0..(5 << 19)).map(|n: u32| (n % 251) as u8).collect();
    mount.put("x.zarr/sst/0", &data).await;
    mount.stat("x.zarr/sst").await.unwrap();
    let before = mount.requests();
    assert!(mount.read("x.zarr/sst/0").await.unwrap() == data);
    assert_eq!(mount.requests().since(before), Requests { get: 3, ..Requests::default() });
}

#[tokio::test]
async fn an_empty_chunk_is_a_file() {
    let mount = Mount::new().await;
    mount.put("x.zarr/sst/0", b"").await;
    assert_eq!(mount.stat("x.zarr/sst/0").await.unwrap().size, 0);
    assert_eq!(mount.read("x.zarr/sst/0").await.unwrap(), b"");
}

#[tokio::test]
async fn missing_chunks_cost_one_get_and_then_one_listing_for_all() {
    let mount = Mount::new().await;
    mount.put("x.zarr/sst/0.0", b"chunk").await;
    mount.stat("x.zarr/sst").await.unwrap();
    let before = mount.requests();
    for chunk in ["0.1", "0.2", "1.1"] {
        mount.stat(&format!("x.zarr/sst/{chunk}")).await.unwrap_err();
    }
    mount.stat("x.zarr/sst/0.0").await.unwrap();
    assert_eq!(mount.requests().since(before), Requests { get: 1, list: 1, ..Requests::default() });
}

#[tokio::test]
async fn a_missing_document_costs_one_get_and_no_listing() {
    let mount = Mount::new().await;
    mount.put("x.zarr/sst/0.0", b"chunk").await;
    mount.stat("x.zarr").await.unwrap();
    let before = mount.requests();
    for _ in 0..3 {
        mount.stat("x.zarr/.zmetadata").await.unwrap_err();
    }
    assert_eq!(mount.requests().since(before), Requests { get: 1, ..Requests::default() });
}

#[tokio::test]
async fn a_new_folder_is_filled_without_asking_what_it_holds() {
    let mount = Mount::new().await;
    let before = mount.requests();
    mount.mkdir("new.zarr").await.unwrap();
    mount.mkdir("new.zarr/sst").await.unwrap();
    mount.copy_in("new.zarr/zarr.json", b"{}").await;
    for chunk in 0..20 {
        mount.copy_in(&format!("new.zarr/sst/{chunk}"), b"chunk").await;
    }
    mount.flush().await;
    for chunk in 0..20 {
        assert_eq!(mount.stat(&format!("new.zarr/sst/{chunk}")).await.unwrap().size, 5);
    }
    assert_eq!(mount.list("new.zarr/sst").await.len(), 20);
    mount.stat("new.zarr/sst/99").await.unwrap_err();
    // The listing is that of the root, for the name `new.zarr`.
    let spent = mount.requests().since(before);
    assert_eq!(spent, Requests { list: 1, put: 21, ..Requests::default() });
}

#[tokio::test]
async fn lookups_at_the_same_time_share_one_request() {
    let mount = Mount::new().await;
    mount.put("a/0.0", b"chunk").await;
    let folder = mount.stat("a").await.unwrap().ino;
    let before = mount.requests();
    let all = join_all((0..10).map(|_| mount.fs.lookup(folder, "0.0"))).await;
    assert!(all.into_iter().all(|attr| attr.unwrap().size == 5));
    assert_eq!(mount.requests().since(before), Requests { get: 1, ..Requests::default() });
    let before = mount.requests();
    let all = join_all((0..10).map(|_| mount.fs.lookup(folder, "name"))).await;
    assert!(all.into_iter().all(|attr| attr.is_err()));
    assert_eq!(mount.requests().since(before), Requests { list: 1, ..Requests::default() });
}

#[tokio::test]
async fn what_is_known_is_asked_again_when_its_time_is_over() {
    let mount = Mount::with(Settings { clock: Clock::manual, ..Settings::default() }).await;
    mount.put("a.dat", b"old").await;
    let attr = mount.stat("a.dat").await.unwrap();
    mount.put("a.dat", b"newer").await;
    mount.put("b.dat", b"b").await;
    mount.clock.advance(std::time::Duration::from_secs(59));
    assert_eq!(mount.fs.getattr(attr.ino, None).await.unwrap().size, 3);
    mount.stat("b.dat").await.unwrap_err();
    mount.clock.advance(std::time::Duration::from_secs(2));
    assert_eq!(mount.fs.getattr(attr.ino, None).await.unwrap().size, 5);
    mount.stat("b.dat").await.unwrap();
}

#[tokio::test]
async fn a_file_deleted_before_it_was_sent_costs_no_request() {
    let mount = Mount::new().await;
    mount.mkdir("d").await.unwrap();
    let before = mount.requests();
    let (_, opened) = mount.create("d/f", crate::mount::NEW).await.unwrap();
    mount.write(opened, 0, b"x");
    mount.unlink("d/f").await.unwrap();
    mount.close(opened).await.unwrap();
    mount.flush().await;
    assert_eq!(mount.requests().since(before), Requests::default());
    assert!(mount.keys().await.is_empty());
}

#[tokio::test]
async fn many_rewrites_are_one_put() {
    let mount = Mount::new().await;
    mount.mkdir("x.zarr").await.unwrap();
    mount.copy_in("x.zarr/zarr.json", b"{}").await;
    for round in 0..16 {
        let opened = mount.open("x.zarr/zarr.json", crate::mount::TRUNCATE).await.unwrap();
        mount.write(opened, 0, format!("{{\"round\": {round}}}").as_bytes());
        mount.close(opened).await.unwrap();
    }
    let before = mount.requests();
    mount.flush().await;
    assert_eq!(mount.requests().since(before), Requests { put: 1, ..Requests::default() });
    assert_eq!(mount.object("x.zarr/zarr.json").await.unwrap(), b"{\"round\": 15}");
}

#[tokio::test]
async fn deleting_a_tree_lists_each_folder_once_and_reads_nothing() {
    let mount = Mount::new().await;
    for key in ["x.zarr/zarr.json", "x.zarr/a/0", "x.zarr/a/1", "x.zarr/b/0"] {
        mount.put(key, b"x").await;
    }
    let before = mount.requests();
    for folder in ["x.zarr/a", "x.zarr/b", "x.zarr"] {
        for name in mount.list(folder).await {
            mount.unlink(&format!("{folder}/{name}")).await.unwrap();
        }
        mount.rmdir(folder).await.unwrap();
    }
    let spent = mount.requests().since(before);
    assert_eq!((spent.list, spent.get, spent.head), (4, 0, 0));
    assert!(mount.fs.lookup(Ino::ROOT, "x.zarr").await.is_err());
    mount.flush().await;
    assert!(mount.keys().await.is_empty());
    assert!(mount.fs.lookup(Ino::ROOT, "x.zarr").await.is_err());
}
