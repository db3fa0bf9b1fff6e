//! What a request is, told from its method, query and headers, in the terms of the S3 API.

use http::{HeaderMap, Method, Uri};

use crate::telemetry::counters::RequestClass;

/// The class of a request to a store whose host and port end in `store_host`; requests to other
/// hosts, such as those for credentials, are [`RequestClass::Other`].
pub(super) fn classify(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    store_host: &str,
) -> RequestClass {
    if !uri.authority().is_some_and(|at| at.as_str().ends_with(store_host)) {
        return RequestClass::Other;
    }
    let query = Query(uri.query().unwrap_or_default());
    let is_copy = ["x-amz-copy-source", "x-goog-copy-source", "x-ms-copy-source"]
        .iter()
        .any(|name| headers.contains_key(*name));
    let comp = query.value("comp");
    if query.has("uploads") || query.has("uploadId") || matches!(comp, Some("block" | "blocklist"))
    {
        RequestClass::Multipart
    } else if is_copy {
        RequestClass::Copy
    } else if *method == Method::GET && (query.has("list-type") || comp == Some("list")) {
        RequestClass::List
    } else if *method == Method::POST && (query.has("delete") || comp == Some("batch")) {
        RequestClass::Delete
    } else {
        match *method {
            Method::GET => RequestClass::Get,
            Method::HEAD => RequestClass::Head,
            Method::PUT => RequestClass::Put,
            Method::DELETE => RequestClass::Delete,
            _ => RequestClass::Other,
        }
    }
}

struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }

    fn has(&self, name: &str) -> bool {
        self.pairs().any(|(key, _)| key == name)
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        self.pairs().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_as_the_s3_api_does() {
        for (method, uri, class) in [
            ("GET", "http://h/b/key", RequestClass::Get),
            ("HEAD", "http://h/b/key", RequestClass::Head),
            ("PUT", "http://h/b/key?x-id=PutObject", RequestClass::Put),
            ("DELETE", "http://h/b/key", RequestClass::Delete),
            ("GET", "http://h/b?list-type=2&prefix=delete", RequestClass::List),
            ("POST", "http://h/b?delete", RequestClass::Delete),
            ("POST", "http://h/b/key?uploads=", RequestClass::Multipart),
            ("PUT", "http://h/b/key?partNumber=1&uploadId=x", RequestClass::Multipart),
            ("DELETE", "http://h/b/key?uploadId=x", RequestClass::Multipart),
            ("GET", "http://h/c?restype=container&comp=list", RequestClass::List),
            ("PUT", "http://h/c/key?comp=blocklist", RequestClass::Multipart),
            ("PUT", "http://169.254.169.254/latest/api/token", RequestClass::Other),
        ] {
            let method = method.parse().unwrap();
            let uri = uri.parse().unwrap();
            assert_eq!(classify(&method, &uri, &HeaderMap::new(), "h"), class, "{method} {uri}");
        }
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-copy-source", "b/from".parse().unwrap());
        let uri = "http://h/b/to".parse().unwrap();
        assert_eq!(classify(&Method::PUT, &uri, &headers, "h"), RequestClass::Copy);
    }
}
