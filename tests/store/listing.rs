//! Listings.

use zarrmount::store::PutCondition;

use crate::support::faults::first;
use crate::support::{Fault, S3Server};
use crate::{Stores, at, open};

#[tokio::test]
async fn a_folder_of_many_objects_is_listed_completely() {
    let stores = Stores::open().await;
    for (name, store) in &stores.all {
        if *name == "s3" {
            // Beside the protocol, which is faster.
            let folder = stores.server.folder().join("some/my data [v1]~/many");
            std::fs::create_dir_all(folder.join("below")).unwrap();
            for n in 0..2500 {
                std::fs::write(folder.join(format!("{n:04}")), "x").unwrap();
            }
            std::fs::write(folder.join("below/deep"), "x").unwrap();
        } else if *name == "file" {
            let folder = stores.folder.path().join("my data [v1]~/many");
            std::fs::create_dir_all(folder.join("below")).unwrap();
            for n in 0..2500 {
                std::fs::write(folder.join(format!("{n:04}")), "x").unwrap();
            }
            std::fs::write(folder.join("below/deep"), "x").unwrap();
        } else {
            for n in 0..2500 {
                let place = at(&format!("many/{n:04}"));
                store.put(&place, "x".into(), PutCondition::Always).await.unwrap();
            }
            store.put(&at("many/below/deep"), "x".into(), PutCondition::Always).await.unwrap();
        }
        stores.server.clear_requests();
        let listing = store.list_folder(&at("many")).await.unwrap();
        assert_eq!(listing.objects.len(), 2500, "{name}");
        assert_eq!(listing.objects[1234].location, at("many/1234"), "{name}");
        assert_eq!(listing.objects[1234].attributes.size, 1, "{name}");
        assert_eq!(listing.folders, ["below"], "{name}");
        assert_eq!(listing.unrepresentable, Vec::<String>::new(), "{name}");
        if *name == "s3" {
            assert_eq!(stores.server.requests().len(), 3, "pages");
        }
        let mut below = 0;
        let mut pages = 0;
        let mut after = None;
        loop {
            let page = store.list_below(&at("many"), after).await.unwrap();
            below += page.objects.len();
            pages += 1;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(below, 2501, "{name} in {pages} pages");
    }
}

#[tokio::test]
async fn a_listing_stays_inside_its_folder() {
    let stores = Stores::open().await;
    for (name, store) in &stores.all {
        for key in ["a/x", "a/b/y", "ab/z", "a.zarr/w"] {
            store.put(&at(key), "x".into(), PutCondition::Always).await.unwrap();
        }
        let listing = store.list_folder(&at("a")).await.unwrap();
        let places: Vec<_> = listing.objects.iter().map(|o| o.location.as_str()).collect();
        assert_eq!((places, listing.folders), (vec!["a/x"], vec!["b".to_owned()]), "{name}");
        let root = store.list_folder(&at("")).await.unwrap();
        assert_eq!(root.folders, ["a", "a.zarr", "ab"], "{name}");
        let missing = store.list_folder(&at("nothing/here")).await.unwrap();
        assert_eq!(missing, zarrmount::store::Listing::default(), "{name}");
    }
}

#[tokio::test]
async fn names_that_cannot_be_shown_are_named_and_hide_nothing() {
    let folder = tempfile::TempDir::new().unwrap();
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"latin-\xe9");
    std::fs::write(folder.path().join(odd), "x").unwrap();
    std::fs::write(folder.path().join("two\nlines"), "x").unwrap();
    std::fs::write(folder.path().join("run#1"), "x").unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("dangling")).unwrap();
    let url = format!("file://{}", folder.path().display()).parse().unwrap();
    let store = open(&url, &zarrmount::store::StoreOptions::default()).await;
    let listing = store.list_folder(&at("")).await.unwrap();
    assert_eq!(listing.objects.len(), 1);
    assert_eq!(listing.objects[0].location, at("run#1"));
    let mut left_out = listing.unrepresentable;
    left_out.sort();
    assert_eq!(left_out, ["latin-\u{fffd}", "two\nlines"]);
}

const ODD_PAGE: &str = "<ListBucketResult><Name>bucket</Name><Prefix>p/f/</Prefix>\
    <Contents><Key>p/f/</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>0</Size></Contents>\
    <Contents><Key>p/f/a</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>1</Size></Contents>\
    <Contents><Key>p/f/x/</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>0</Size></Contents>\
    <CommonPrefixes><Prefix>p/f//</Prefix></CommonPrefixes>\
    <CommonPrefixes><Prefix>p/f/g/</Prefix></CommonPrefixes></ListBucketResult>";

#[tokio::test]
async fn keys_that_no_path_can_have_do_not_hide_the_others_in_a_bucket() {
    let server = S3Server::start();
    let store = open(&server.url("p"), &server.options()).await;
    server.set_fault(first(1, Fault::Body(ODD_PAGE), |_| true));
    let listing = store.list_folder(&at("f")).await.unwrap();
    let shown: Vec<_> = listing.objects.iter().map(|o| o.location.as_str()).collect();
    assert_eq!((shown, listing.folders), (vec!["f/a"], vec!["g".to_owned()]));
    assert_eq!(listing.unrepresentable, ["p/f/x/", "p/f//"], "but not the folder's own marker");
}

#[tokio::test]
async fn white_space_at_the_ends_of_a_key_is_not_lost_in_silence() {
    let server = S3Server::start();
    let store = open(&server.url(""), &server.options()).await;
    for name in [" before", "after ", "in side"] {
        std::fs::write(server.folder().join(name), "x").unwrap();
    }
    let listing = store.list_folder(&at("")).await.unwrap();
    let shown: Vec<_> = listing.objects.iter().map(|o| o.location.as_str()).collect();
    for key in [" before", "after ", "in side"] {
        let told = shown.contains(&key) || listing.unrepresentable.iter().any(|left| left == key);
        assert!(told, "{key:?}: {listing:?}");
    }
}
