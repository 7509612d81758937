// SPDX-License-Identifier: GPL-2.0-only
//! Work that may take long, on a thread of its own: the loop gives a job, goes on, and is woken for the answer.
//!
//! Giving and taking never wait. A thread that ends by itself, by a panic too, closes its end of the bell: the next look says so, and the daemon
//! ends with it instead of going on half blind. Dropping the worker ends the thread after the job in hand. Nobody waits for that: a job
//! may hang in a network file system, and the process that ends takes the thread along.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use anyhow::{Context, Result, bail};

/// The thread's stack, in bytes: what is large is on the heap. All of it stays in memory (`mlockall`), used or not.
const STACK_BYTES: usize = 256 * 1024;

/// A thread that makes an answer `A` of each job `J`.
pub struct Worker<J, A> {
    name: &'static str,
    jobs: SyncSender<J>,
    answers: Receiver<A>,
    bell: UnixStream,
}

impl<J: Send + 'static, A: Send + 'static> Worker<J, A> {
    /// Start the thread, with room for `waiting` jobs beside the one in hand.
    ///
    /// # Errors
    /// The system has no room for a thread or its sockets.
    pub fn start(name: &'static str, waiting: usize, work: impl FnMut(J) -> A + Send + 'static) -> Result<Self> {
        let (jobs, todo) = sync_channel(waiting);
        let (done, answers) = sync_channel(waiting + 1);
        let (bell, ringer) = UnixStream::pair().with_context(|| format!("cannot make a socket for thread {name}"))?;
        bell.set_nonblocking(true)?;
        thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || serve(&todo, &done, ringer, work))
            .with_context(|| format!("cannot start thread {name}"))?;
        Ok(Self { name, jobs, answers, bell })
    }

    /// Give it a job. Whether the thread is still there shows in [`Self::take`].
    ///
    /// # Errors
    /// Too many wait already: here the job is back.
    pub fn give(&self, job: J) -> Result<(), J> {
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })
    }

    /// The next answer, if there is one.
    ///
    /// # Errors
    /// The thread has ended by itself.
    pub fn take(&mut self) -> Result<Option<A>> {
        let mut rings = [0];
        match self.bell.read(&mut rings) {
            Ok(0) => bail!(
                "the daemon's thread {:?} has ended by itself: that is a fault of limelight's, and the lines above this one say where",
                self.name
            ),
            Ok(_) => Ok(self.answers.try_recv().ok()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot hear from thread {}", self.name)),
        }
    }
}

impl<J, A> AsFd for Worker<J, A> {
    /// Readable while there is something to take, or the thread has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn serve<J, A>(todo: &Receiver<J>, done: &SyncSender<A>, mut ringer: UnixStream, mut work: impl FnMut(J) -> A) {
    for job in todo {
        // The daemon is ending.
        if done.send(work(job)).is_err() || ringer.write_all(&[0]).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    /// Far longer than a thread takes to get a CPU on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn wait<J, A>(worker: &Worker<J, A>) {
        let timeout = PollTimeout::try_from(PATIENCE).unwrap();
        let ready = poll(&mut [PollFd::new(worker.as_fd(), PollFlags::POLLIN)], timeout).unwrap();
        assert_eq!(ready, 1, "the bell was not rung");
    }

    /// Jobs are answered in their order, the bell rings for each, and one too many is refused rather than waited for.
    #[test]
    fn jobs_are_answered_and_never_waited_for() {
        let (go, told_to_go) = channel::<()>();
        let mut worker = Worker::start("test", 1, move |number: u32| {
            told_to_go.recv_timeout(PATIENCE).unwrap();
            number + 1
        })
        .unwrap();
        assert!(worker.take().unwrap().is_none());
        worker.give(1).unwrap();
        // The first is in hand soon or still waits: of the next two one at least is too many.
        let given = [worker.give(2), worker.give(3)];
        assert!(given.contains(&Err(3)), "{given:?}");
        (0..2).for_each(|_| go.send(()).unwrap());
        wait(&worker);
        assert_eq!(worker.take().unwrap(), Some(2));
    }

    /// A job that panics does not go unseen.
    #[test]
    fn a_thread_that_panics_is_reported() {
        let mut worker = Worker::start("doomed", 1, |(): ()| panic!("this panic is part of a test")).unwrap();
        worker.give(()).unwrap();
        wait(&worker);
        let error = worker.take().unwrap_err().to_string();
        assert!(error.contains("\"doomed\" has ended by itself"), "{error}");
    }

    /// The thread ends when its worker is dropped.
    #[test]
    fn the_thread_ends_with_its_worker() {
        let (sign, ended) = channel::<()>();
        let worker = Worker::start("test", 1, move |(): ()| drop(sign.clone())).unwrap();
        drop(worker);
        // The thread held the only sender.
        assert!(matches!(ended.recv_timeout(PATIENCE), Err(std::sync::mpsc::RecvTimeoutError::Disconnected)));
    }
}
