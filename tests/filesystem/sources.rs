//! Source files, as far as the file system deals with them.

use crate::mount::{Mount, NEW, READ, TRUNCATE};

#[tokio::test]
async fn a_file_that_is_no_netcdf_is_refused_at_its_close() {
    let mount = Mount::new().await;
    let (_, opened) = mount.create("x.nc", NEW).await.unwrap();
    mount.fs.flush(opened.fh).await.unwrap();
    mount.write(opened, 0, b"this is no NetCDF file at all");
    let refused = mount.close(opened).await;
    assert_eq!(refused.unwrap_err().errno(), libc::EBADMSG);
    mount.flush().await;
    assert!(mount.keys().await.is_empty());
}

#[tokio::test]
async fn a_refusal_is_told_at_the_file_and_in_the_status_folder_until_the_next_copy() {
    let mount = Mount::new().await;
    mount.mkdir("d").await.unwrap();
    let (_, opened) = mount.create("d/x.nc", NEW).await.unwrap();
    mount.write(opened, 0, b"this is no NetCDF file at all");
    mount.close(opened).await.unwrap_err();
    let told = loop {
        // The verdict of the release comes from a task.
        match mount.read(".zarrmount-status/refused/d/x.nc.txt").await {
            Ok(told) => break told,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert!(String::from_utf8(told).unwrap().starts_with("d/x.nc: "));
    assert_eq!(mount.list(".zarrmount-status/refused").await, ["d"]);
    let ino = mount.stat("d/x.nc").await.unwrap().ino;
    assert_eq!(mount.fs.open(ino, READ).await.unwrap_err().errno(), libc::EBADMSG);
    // Told once; the bytes are kept and can be read.
    assert_eq!(mount.read("d/x.nc").await.unwrap().len(), 29);
    let again = mount.open("d/x.nc", TRUNCATE).await.unwrap();
    mount.fs.release(again.fh);
}

#[tokio::test]
async fn rsync_hears_of_a_refusal_when_it_gives_the_name() {
    let mount = Mount::new().await;
    mount.copy_in(".x.nc.Ab3xYz", b"this is no NetCDF file at all").await;
    let refused = mount.rename(".x.nc.Ab3xYz", "x.nc").await;
    assert_eq!(refused.unwrap_err().errno(), libc::EBADMSG);
    assert_eq!(mount.list("").await, [".x.nc.Ab3xYz"]);
}

#[tokio::test]
async fn an_empty_source_file_is_a_placeholder() {
    let mount = Mount::new().await;
    mount.copy_in("x.nc", b"").await;
    mount.flush().await;
    assert!(mount.keys().await.is_empty());
    assert_eq!(mount.stat("x.nc").await.unwrap().size, 0);
}

#[tokio::test]
async fn a_folder_with_a_waiting_source_file_keeps_its_name() {
    let mount = Mount::new().await;
    mount.mkdir("d.zarr").await.unwrap();
    let (_, opened) = mount.create("d.zarr/x.nc", NEW).await.unwrap();
    assert_eq!(mount.rename("d.zarr", "e.zarr").await.unwrap_err().errno(), libc::EBUSY);
    mount.close(opened).await.unwrap();
}
