//! Profiles of the AWS command line.

use std::path::Path;
use std::sync::Arc;

use zarrmount::store::{Environment, OpenError, ProfileError, Store, StoreOptions};
use zarrmount::telemetry::counters::StoreCounters;

use crate::open;
use crate::support::S3Server;

const CREDENTIALS: &str = "# mine\n[default]\naws_access_key_id = nobody\n\
    aws_secret_access_key = nothing\n\n[lab]\naws_access_key_id=testkey\n\
    aws_secret_access_key =   testsecret\n";
const CONFIG: &str = "[default]\nregion = eu-north-1\n[profile lab]\nregion = eu-central-1\n\
    s3 =\n    addressing_style = path\n[profile work]\nsso_session = corp\n\
    [profile other]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = lab\n";

fn home(folder: &Path) -> String {
    let aws = folder.join(".aws");
    std::fs::create_dir(&aws).unwrap();
    std::fs::write(aws.join("credentials"), CREDENTIALS).unwrap();
    std::fs::write(aws.join("config"), CONFIG).unwrap();
    folder.display().to_string()
}

async fn open_fails(server: &S3Server, options: &StoreOptions) -> OpenError {
    let counters = Arc::new(StoreCounters::default());
    Store::open(&server.url(""), options, counters).await.unwrap_err()
}

#[tokio::test]
async fn a_static_profile_opens_the_store() {
    let server = S3Server::start();
    let folder = tempfile::TempDir::new().unwrap();
    let home = home(folder.path());
    let mut options = server.options();
    options.environment = Environment::of([("HOME", &home), ("AWS_PROFILE", "lab")]);
    open(&server.url(""), &options).await;
    // An explicit profile wins over keys in the environment.
    options.profile = Some("lab".to_owned());
    options.environment = Environment::of([
        ("HOME", &home),
        ("AWS_ACCESS_KEY_ID", "wrong"),
        ("AWS_SECRET_ACCESS_KEY", "wrong"),
    ]);
    open(&server.url(""), &options).await;
    let elsewhere = folder.path().join("elsewhere");
    std::fs::copy(folder.path().join(".aws/credentials"), &elsewhere).unwrap();
    std::fs::remove_file(folder.path().join(".aws/credentials")).unwrap();
    options.environment = Environment::of([
        ("HOME", &home),
        ("AWS_SHARED_CREDENTIALS_FILE", &elsewhere.display().to_string()),
    ]);
    open(&server.url(""), &options).await;
}

#[tokio::test]
async fn a_profile_that_needs_more_is_refused_with_what_works() {
    let server = S3Server::start();
    let folder = tempfile::TempDir::new().unwrap();
    let home = home(folder.path());
    let mut options = server.options();
    options.environment = Environment::of([("HOME", &home)]);
    for (profile, needs) in [("work", "single sign-on"), ("other", "assume a role")] {
        options.profile = Some(profile.to_owned());
        let error = open_fails(&server, &options).await;
        assert!(matches!(error, OpenError::Profile(ProfileError::NeedsMore { .. })), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(needs) && text.contains("export-credentials"), "{text}");
    }
    options.profile = Some("absent".to_owned());
    let error = open_fails(&server, &options).await;
    assert!(matches!(error, OpenError::Profile(ProfileError::Missing { .. })), "{error:?}");
    assert!(error.to_string().contains("`absent`"), "{error}");
    assert_eq!(server.requests(), []);
}
