//! Signals that ask the process to end.

use std::fmt;

use futures::stream::{Stream, StreamExt};
use tokio::sync::mpsc;

use crate::{Exit, Spawner};

/// A request to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGTERM: an orchestrator stops the process.
    Terminate,
    /// SIGINT: somebody pressed Ctrl-C.
    Interrupt,
}

impl Signal {
    /// The exit code that says "ended by this signal" to a shell.
    pub const fn exit_code(self) -> i32 {
        match self {
            Self::Terminate => 128 + 15,
            Self::Interrupt => 128 + 2,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        })
    }
}

/// The first signal asks for an orderly end; the second ends the process at once, which is safe at
/// any moment since nothing is trusted before it is durable.
#[derive(Debug)]
pub struct Signals {
    first: mpsc::Receiver<Signal>,
}

/// Sends signals by hand, in tests.
#[derive(Clone, Debug)]
pub struct SignalSender {
    sender: mpsc::Sender<Signal>,
}

impl SignalSender {
    /// Delivers a signal. It is lost if nobody listens any more, as for an ended process.
    pub async fn send(&self, signal: Signal) {
        let _ = self.sender.send(signal).await;
    }
}

impl Signals {
    /// This process's signals, from now on.
    ///
    /// # Errors
    /// If the operating system refuses a handler.
    pub fn of_process(spawner: &Spawner, exit: &Exit) -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let (sender, receiver) = mpsc::channel(2);
        for (kind, as_signal) in [
            (SignalKind::terminate(), Signal::Terminate),
            (SignalKind::interrupt(), Signal::Interrupt),
        ] {
            let (mut incoming, sender) = (signal(kind)?, sender.clone());
            let name = format!("signal {as_signal}");
            spawner.outliving().supervise(name, async move {
                while incoming.recv().await.is_some() && sender.send(as_signal).await.is_ok() {}
            });
        }
        Ok(Self::over(receiver_stream(receiver), spawner, exit))
    }

    /// Signals sent by a test.
    pub fn by_hand(spawner: &Spawner, exit: &Exit) -> (SignalSender, Self) {
        let (sender, receiver) = mpsc::channel(2);
        (
            SignalSender { sender },
            Self::over(receiver_stream(receiver), spawner, exit),
        )
    }

    fn over(
        source: impl Stream<Item = Signal> + Send + 'static,
        spawner: &Spawner,
        exit: &Exit,
    ) -> Self {
        let (first_sender, first) = mpsc::channel(1);
        let exit = exit.clone();
        // Outlives a shutdown: the second signal must end one that hangs.
        spawner.outliving().supervise("signals", async move {
            let mut source = std::pin::pin!(source);
            let mut seen = false;
            while let Some(signal) = source.next().await {
                if seen {
                    exit.now(signal.exit_code());
                    return;
                }
                seen = true;
                // Room for one; a daemon that no longer listens is on its way out already.
                let _ = first_sender.try_send(signal);
            }
        });
        Self { first }
    }

    /// Waits for the first signal; never completes if none comes.
    pub async fn next(&mut self) -> Signal {
        match self.first.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

fn receiver_stream(receiver: mpsc::Receiver<Signal>) -> impl Stream<Item = Signal> {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|signal| (signal, receiver))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExitRecord, SpawnLimits};

    #[tokio::test]
    async fn the_first_signal_is_a_request_and_the_second_an_end() {
        let spawner = Spawner::current("test", SpawnLimits::default());
        let (exit, log) = Exit::recording();
        let (sender, mut signals) = Signals::by_hand(&spawner, &exit);
        sender.send(Signal::Terminate).await;
        assert_eq!(signals.next().await, Signal::Terminate);
        assert!(log.records().is_empty());
        sender.send(Signal::Interrupt).await;
        while log.records().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(log.records(), [ExitRecord::Now(130)]);
    }

    #[tokio::test]
    async fn a_real_sigterm_arrives() {
        let spawner = Spawner::current("test", SpawnLimits::default());
        let (exit, _log) = Exit::recording();
        let mut signals = Signals::of_process(&spawner, &exit).unwrap();
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, rustix::process::Signal::TERM).unwrap();
        assert_eq!(signals.next().await, Signal::Terminate);
    }
}
