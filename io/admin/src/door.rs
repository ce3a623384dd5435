//! Accepts HTTP connections and answers them, on a thread of its own.
//!
//! A connection carries one request and lives for at most some seconds (`CONNECTION_WITHIN`). At most
//! `CONNECTION_COUNT_MAX` connections are open at a time; further ones wait in the kernel's queue until there
//! is room. So a client that connects can delay the answers to others for a while, and can do no other harm.

use crate::answers::{Asking, Snapshot, router};
use crate::roles::Role;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ramhold_base::{Instant, Machine};
use ramhold_runtime::Runtime;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// More than all that watch one process will use at a time.
const CONNECTION_COUNT_MAX: usize = 16;
/// A request's line and headers; browsers and scrapers send less than 2 KiB.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADER_COUNT_MAX: usize = 64;
const HEAD_WITHIN: Duration = Duration::from_secs(3);
/// From accepting a connection to its end. The default patience of Prometheus.
const CONNECTION_WITHIN: Duration = Duration::from_secs(10);
/// When the process has no file descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// The place where those who operate a process are heard.
pub struct Door {
    listener: TcpListener,
    address: SocketAddr,
}

impl Door {
    /// Listens; nobody is answered before `serve`.
    pub fn open(address: SocketAddr) -> io::Result<Door> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Door { address: listener.local_addr()?, listener })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers from now on, with what `see` makes of the machine whenever somebody asks. It is called on the loop's
    /// thread and must not take long. The thread ends soon after the loop is dropped, and closes the port.
    pub fn serve<M, R>(
        self,
        runtime: &mut Runtime<M>,
        mut see: impl FnMut(&M, Instant) -> R + Send + 'static,
    ) -> io::Result<JoinHandle<()>>
    where
        M: Machine,
        R: Role,
    {
        let (show, shown) = watch::channel(None);
        // The channel's lock is held only while a pointer is exchanged, both here and by the reader.
        let ask = runtime.show_with(move |machine, of_loop| {
            let role = see(machine, of_loop.at);
            show.send_replace(Some(Arc::new(Snapshot { of_loop, role })));
        });
        let loop_is_gone = is_gone(shown.clone());
        let router = router(Asking { ask, shown });
        let tokio = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let work = move || tokio.block_on(either(accept(self.listener, router), loop_is_gone));
        std::thread::Builder::new().name("ramhold-admin".to_owned()).spawn(work)
    }
}

/// Ready when the loop has been dropped that shows its machine here.
async fn is_gone<T>(mut shown: watch::Receiver<T>) {
    while shown.changed().await.is_ok() {}
}

async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Pending => other.as_mut().poll(context),
        Poll::Ready(()) => Poll::Ready(()),
    })
    .await;
}

async fn accept(listener: TcpListener, router: Router) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let room = Arc::new(Semaphore::new(CONNECTION_COUNT_MAX));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    // A client that is too slow is cut off. Any other error is the client's concern.
                    let _ = timeout(CONNECTION_WITHIN, answer(stream, router)).await;
                    drop(place);
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn answer(stream: TcpStream, router: Router) -> hyper::Result<()> {
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADER_COUNT_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await
}
