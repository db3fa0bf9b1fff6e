//! A long wire: what goes through it arrives later, and at a limited rate.
//!
//! Each direction of a connection has its own delay line, so that whatever a client does in turns
//! (open a connection, shake hands for TLS, send a request and wait) costs it the round trips that it
//! costs on a real line. Nothing is dropped or reordered.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::PollSender;

/// Read from a socket at once.
const PIECE_BYTES: usize = 256 * 1024;
/// Pieces on the line, in each direction: as much as a sender with a large window has in flight.
const PIECES_IN_FLIGHT: usize = 64;
/// Shorter debts of time than this are collected before one waits for them: timers are no finer.
const DEBT_MIN: Duration = Duration::from_millis(2);

/// How long and how wide the wire is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shape {
    /// Time of a round trip.
    pub(crate) rtt: Duration,
    /// Of one connection in one direction; none is as fast as the machine.
    pub(crate) bytes_per_second: Option<u64>,
}

/// What went through.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// From clients.
    pub(crate) bytes_in: AtomicU64,
    /// To clients.
    pub(crate) bytes_out: AtomicU64,
}

struct Piece {
    due: Instant,
    bytes: Bytes,
}

/// A connection at the far end of the wire.
pub(crate) struct Wire {
    incoming: mpsc::Receiver<Piece>,
    current: Option<Piece>,
    timer: Pin<Box<Sleep>>,
    outgoing: PollSender<Piece>,
    delay: Duration,
}

impl Wire {
    /// Opening the connection took its client a round trip, which the kernel on loopback does not
    /// know: what comes first comes that much later.
    pub(crate) fn new(socket: TcpStream, shape: Shape, carried: Arc<Carried>) -> Self {
        let (from, to) = socket.into_split();
        let (arrive, incoming) = mpsc::channel(PIECES_IN_FLIGHT);
        let (outgoing, leave) = mpsc::channel(PIECES_IN_FLIGHT);
        let opened = Instant::now() + shape.rtt;
        tokio::spawn(carry_in(from, arrive, shape, opened, Arc::clone(&carried)));
        tokio::spawn(carry_out(to, leave, shape, carried));
        Self {
            incoming,
            current: None,
            timer: Box::pin(sleep_until(Instant::now())),
            outgoing: PollSender::new(outgoing),
            delay: shape.rtt / 2,
        }
    }
}

/// Keeps to a rate: says when what is sent now has gone.
struct Pace {
    bytes_per_second: Option<u64>,
    free: Instant,
}

impl Pace {
    fn new(shape: Shape) -> Self {
        Self { bytes_per_second: shape.bytes_per_second, free: Instant::now() }
    }

    async fn pass(&mut self, bytes: usize) {
        let Some(rate) = self.bytes_per_second else { return };
        let now = Instant::now();
        let takes = Duration::from_nanos(bytes as u64 * 1_000_000_000 / rate.max(1));
        self.free = self.free.max(now) + takes;
        if self.free - now > DEBT_MIN {
            sleep_until(self.free).await;
        }
    }
}

async fn carry_in(
    mut from: OwnedReadHalf,
    arrive: mpsc::Sender<Piece>,
    shape: Shape,
    opened: Instant,
    carried: Arc<Carried>,
) {
    let mut pace = Pace::new(shape);
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE_BYTES);
        let Ok(count @ 1..) = from.read_buf(&mut buffer).await else { return };
        carried.bytes_in.fetch_add(count as u64, Ordering::Relaxed);
        pace.pass(count).await;
        let due = Instant::now().max(opened) + shape.rtt / 2;
        if arrive.send(Piece { due, bytes: buffer.split().freeze() }).await.is_err() {
            return;
        }
    }
}

async fn carry_out(
    mut to: OwnedWriteHalf,
    mut leave: mpsc::Receiver<Piece>,
    shape: Shape,
    carried: Arc<Carried>,
) {
    let mut pace = Pace::new(shape);
    while let Some(piece) = leave.recv().await {
        if shape.rtt > Duration::ZERO {
            sleep_until(piece.due).await;
        }
        carried.bytes_out.fetch_add(piece.bytes.len() as u64, Ordering::Relaxed);
        pace.pass(piece.bytes.len()).await;
        if to.write_all(&piece.bytes).await.is_err() {
            return;
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.current.is_none() {
            let Some(piece) = ready!(self.incoming.poll_recv(context)) else {
                return Poll::Ready(Ok(()));
            };
            self.timer.as_mut().reset(piece.due);
            self.current = Some(piece);
        }
        if self.delay > Duration::ZERO {
            ready!(self.timer.as_mut().poll(context));
        }
        let this = &mut *self;
        if let Some(piece) = &mut this.current {
            let count = piece.bytes.len().min(into.remaining());
            into.put_slice(&piece.bytes[..count]);
            piece.bytes.advance(count);
            if piece.bytes.is_empty() {
                this.current = None;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        ready!(self.outgoing.poll_reserve(context)).map_err(closed)?;
        let piece =
            Piece { due: Instant::now() + self.delay, bytes: Bytes::copy_from_slice(bytes) };
        self.outgoing.send_item(piece).map_err(closed)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.close();
        Poll::Ready(Ok(()))
    }
}
