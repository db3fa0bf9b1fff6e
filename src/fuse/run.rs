//! The one way in which an operation runs and is answered.
//!
//! The future is polled once on the kernel's thread: what needs no waiting ends there, without a
//! change of threads. What does wait goes on in the runtime, together with its reply, and the
//! kernel's thread is free. A panic answers EIO and ends nothing else.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::task::{Context, Waker};

use fuser::Errno;
use futures::FutureExt as _;
use tokio::runtime::Handle;

use crate::base::tasks;
use crate::fs::Error;

/// A reply that can be an error: all of fuser's.
pub(super) trait Refuse {
    /// Answers with a number.
    fn refuse(self, errno: Errno);
}

macro_rules! refuse {
    ($($reply:ident),*) => {
        $(impl Refuse for fuser::$reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        })*
    };
}

refuse!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyOpen,
    ReplyWrite
);

/// Runs `work` and gives its outcome to the kernel: by `answer`, or as the errno of its error.
pub(super) fn run<R, T, F>(
    runtime: &Handle,
    name: &'static str,
    reply: R,
    work: F,
    answer: impl FnOnce(R, T) + Send + 'static,
) where
    R: Refuse + Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let answered = async move {
        // Unwinding drops the reply inside, and fuser answers EIO for it.
        let whole = async move {
            match work.await {
                Ok(outcome) => answer(reply, outcome),
                Err(error) => refuse(name, reply, &error),
            }
        };
        if AssertUnwindSafe(whole).catch_unwind().await.is_err() {
            tracing::error!(operation = name, "a file system operation panicked; this is a defect");
        }
    };
    let mut answered = Box::pin(answered);
    let _in_runtime = runtime.enter();
    if answered.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tasks::spawn_on(runtime, name, answered);
    }
}

/// Runs what never waits.
pub(super) fn run_now<R: Refuse, T>(
    name: &'static str,
    mut reply: R,
    work: impl FnOnce(&mut R) -> Result<T, Error>,
    answer: impl FnOnce(R, T),
) {
    let whole = move || match work(&mut reply) {
        Ok(outcome) => answer(reply, outcome),
        Err(error) => refuse(name, reply, &error),
    };
    // Unwinding drops the reply inside, and fuser answers EIO for it.
    if std::panic::catch_unwind(AssertUnwindSafe(whole)).is_err() {
        tracing::error!(operation = name, "a file system operation panicked; this is a defect");
    }
}

/// The one way to answer an error.
fn refuse(name: &'static str, reply: impl Refuse, error: &Error) {
    let errno = error.errno();
    if error.is_ordinary() {
        tracing::trace!(operation = name, errno, %error);
    } else {
        tracing::warn!(operation = name, errno, %error);
    }
    reply.refuse(Errno::from_i32(errno));
}
