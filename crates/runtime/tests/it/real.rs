//! Behaviour that only real threads can show: wake-ups across threads, sleeping, shutdown, panics, back ends.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use runtime::{
    BackendChoice, BackendKind, CpuGroup, IoBuf, IoClass, OpenOptions, Runtime, RuntimeOptions, Shard,
    ShardGone,
};

use crate::worlds::{REAL, SHARDS, fresh_dir, start};

#[test]
fn linux_aio_and_threads_work_and_auto_reports_its_choice() {
    for backend in [BackendChoice::LinuxAio, BackendChoice::Threads] {
        let options = RuntimeOptions { backend, ..RuntimeOptions::default() };
        let runtime = Runtime::start(options, |_| async {}).expect("works in every supported place");
        assert!(runtime.backend_in_use().unavailable.is_empty());
        runtime.shutdown().unwrap();
    }
    let options = RuntimeOptions { shards: 2, pin: true, ..RuntimeOptions::default() };
    let runtime = Runtime::start(options, |_| async {}).unwrap();
    println!("auto: {}", runtime.backend_in_use());
    match runtime.backend_in_use().kind {
        BackendKind::IoUring => assert!(runtime.backend_in_use().unavailable.is_empty()),
        BackendKind::LinuxAio => assert_eq!(runtime.backend_in_use().unavailable.len(), 1),
        BackendKind::Threads => assert_eq!(runtime.backend_in_use().unavailable.len(), 2),
    }
}

#[test]
fn the_disk_works_while_the_task_that_asked_it_goes_on() {
    for backend in REAL {
        let Some(runtime) = start(backend) else { continue };
        let dir = fresh_dir(&format!("goes-on-{backend:?}"));
        let path = dir.join("written-meanwhile");
        let test = move |shard: Shard| async move {
            let options = OpenOptions::create_new().with_direct(true);
            let file = shard.files().open(&path, options).await.unwrap();
            let bytes = vec![7; 4096];
            let mut write = Box::pin(file.write_at(0, IoBuf::copy_from(&bytes), IoClass::Statement));
            // A helper thread may be done before the first poll ends.
            if let Some(done) = poll_fn(|context| match write.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending => Poll::Ready(None),
            })
            .await
            {
                drop(done.unwrap());
                return;
            }
            shard.yield_now().await;
            // From here on the task keeps its thread busy, so the write must already have been submitted to
            // the disk.
            let written = (0..1_000_000).any(|_| std::fs::read(&path).is_ok_and(|found| found == bytes));
            assert!(written, "what was asked for before the task yielded is done while it works");
            write.await.unwrap();
        };
        runtime.remote().call(0, CpuGroup::Statement, test).wait().expect("the test did not panic");
        runtime.shutdown().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn start_returns_after_init_and_shutdown_drops_what_is_left() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    for backend in REAL {
        let (inits, drops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let options = RuntimeOptions { shards: SHARDS, backend, ..RuntimeOptions::default() };
        let (init_counter, drop_counter) = (Arc::clone(&inits), Arc::clone(&drops));
        let started = Runtime::start(options, move |shard| {
            let (inits, drops) = (Arc::clone(&init_counter), Counted(Arc::clone(&drop_counter)));
            async move {
                let sleeper = shard.clone();
                shard
                    .spawn(CpuGroup::Background, async move {
                        let _drops = drops;
                        sleeper.sleep_us(u64::MAX).await;
                    })
                    .detach();
                shard.sleep_us(2000).await;
                inits.fetch_add(1, Ordering::SeqCst);
            }
        });
        let Ok(runtime) = started else {
            assert_eq!(backend, BackendChoice::IoUring);
            continue;
        };
        assert_eq!(inits.load(Ordering::SeqCst), SHARDS as usize);
        let remote = runtime.remote();
        let pending =
            remote.call(0, CpuGroup::Statement, |shard| async move { shard.sleep_us(u64::MAX).await });
        runtime.shutdown().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), SHARDS as usize);
        assert_eq!(pending.wait(), Err(ShardGone));
        assert_eq!(remote.call(1, CpuGroup::Statement, |_| async {}).wait(), Err(ShardGone));
    }
}

#[test]
fn a_panic_takes_its_shard_and_no_other() {
    let runtime = start(BackendChoice::Threads).unwrap();
    let remote = runtime.remote();
    let waiting = remote.call(1, CpuGroup::Statement, |shard| async move { shard.sleep_us(u64::MAX).await });
    let gone = remote.call(1, CpuGroup::Statement, |_| async { panic!("a broken invariant (on purpose)") });
    assert!(gone.wait().is_err());
    assert_eq!(waiting.wait(), Err(ShardGone));
    assert_eq!(remote.call(0, CpuGroup::Statement, |shard| async move { shard.id() }).wait(), Ok(0));
    let from_another = remote.call(0, CpuGroup::Statement, |shard| async move {
        shard.call(1, CpuGroup::Statement, |_| async {}).await
    });
    assert_eq!(from_another.wait(), Ok(Err(ShardGone)));
    let panicked = runtime.shutdown().unwrap_err();
    assert_eq!((panicked.shard, panicked.message.as_str()), (1, "a broken invariant (on purpose)"));
}

/// The shard sleeps after every call, and the next call arrives at about the moment when it falls asleep. A
/// lost ring would leave it asleep with a message in its inbox.
#[test]
fn no_ring_is_lost() {
    const CALLS: u32 = 40_000;
    const YIELDS_MAX: u32 = 3_000_000;
    for backend in REAL {
        let options = RuntimeOptions { backend, idle_poll_us: 0, ..RuntimeOptions::default() };
        let Ok(runtime) = Runtime::start(options, |_| async {}) else {
            assert_eq!(backend, BackendChoice::IoUring);
            continue;
        };
        let remote = runtime.remote();
        for at in 0..CALLS {
            for _ in 0..at % 97 {
                std::hint::spin_loop();
            }
            let reply = remote.call(0, CpuGroup::Statement, move |_| async move { at });
            let mut looks = 0_u32;
            while !reply.is_ready() {
                looks += 1;
                if looks.is_multiple_of(64) {
                    thread::yield_now();
                }
                assert!(looks / 64 < YIELDS_MAX, "{backend:?}: call {at} is never answered");
            }
            assert_eq!(reply.wait(), Ok(at));
        }
        let parks = remote.call(0, CpuGroup::Statement, |shard| async move { shard.stats().parks }).wait();
        println!("{backend:?}: {parks:?} sleeps in {CALLS} calls");
        assert!(parks.unwrap() > 100, "the shard slept in between");
        runtime.shutdown().unwrap();
    }
}

/// The same with several threads that block for each reply, so that both sides sleep.
#[test]
fn blocked_threads_and_sleeping_shards_wake_each_other() {
    let options = RuntimeOptions { shards: 2, idle_poll_us: 0, ..RuntimeOptions::default() };
    let runtime = Runtime::start(options, |_| async {}).unwrap();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let remote = runtime.remote();
            thread::Builder::new().spawn(move || {
                for at in 0..5_000_u32 {
                    let reply = remote.call(at % 2, CpuGroup::Statement, move |_| async move { at });
                    assert_eq!(reply.wait(), Ok(at));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.unwrap().join().unwrap();
    }
    runtime.shutdown().unwrap();
}

#[test]
fn a_million_calls_between_two_shards() {
    const CALLS: u64 = 1_000_000;
    let runtime = start(BackendChoice::Auto).unwrap();
    let counted = runtime.remote().call(0, CpuGroup::Statement, |shard| async move {
        let start_us = shard.now_us();
        let tasks: Vec<_> = (0..64)
            .map(|_| {
                let shard = shard.clone();
                shard.clone().spawn(CpuGroup::Statement, async move {
                    let mut sum = 0;
                    for at in 0..CALLS / 64 {
                        sum += shard.call(1, CpuGroup::Statement, move |_| async move { at }).await.unwrap();
                    }
                    sum
                })
            })
            .collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await;
        }
        (sum, shard.now_us() - start_us)
    });
    let (sum, took_us) = counted.wait().unwrap();
    let per_task = CALLS / 64;
    assert_eq!(sum, 64 * (per_task * (per_task - 1) / 2));
    println!("{CALLS} calls, 64 outstanding: {took_us} us");
    runtime.shutdown().unwrap();
}

/// A waker of a shard's task is used from other threads while the task runs, sleeps and ends.
#[test]
fn tasks_are_woken_from_other_threads() {
    let runtime = start(BackendChoice::Auto).unwrap();
    let progress = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&progress);
    let (sender, wakers) = std::sync::mpsc::channel::<Waker>();
    let task = runtime.remote().call(0, CpuGroup::Statement, move |_| {
        std::future::poll_fn(move |context: &mut Context<'_>| {
            if seen.fetch_add(1, Ordering::SeqCst) == 2000 {
                return Poll::Ready(());
            }
            sender.send(context.waker().clone()).unwrap();
            Poll::Pending
        })
    });
    let waking = thread::Builder::new().spawn(move || {
        for waker in wakers {
            waker.wake();
        }
    });
    task.wait().unwrap();
    waking.unwrap().join().unwrap();
    assert_eq!(progress.load(Ordering::SeqCst), 2001);
    runtime.shutdown().unwrap();
}

#[test]
fn a_reply_is_a_future_for_any_executor() {
    struct Flag(AtomicUsize);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let runtime = start(BackendChoice::Threads).unwrap();
    let flag = Arc::new(Flag(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&flag));
    let mut context = Context::from_waker(&waker);
    let mut reply = std::pin::pin!(runtime.remote().call(2, CpuGroup::Statement, |shard| async move {
        shard.sleep_us(3000).await;
        shard.id()
    }));
    let result = loop {
        if let Poll::Ready(result) = reply.as_mut().poll(&mut context) {
            break result;
        }
        while flag.0.swap(0, Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
    };
    assert_eq!(result, Ok(2));
}

#[test]
fn a_file_that_cannot_be_direct_is_opened_buffered() {
    let dir = fresh_dir("undirect");
    for backend in REAL {
        let Some(runtime) = start(backend) else { continue };
        let opened = runtime.remote().call(0, CpuGroup::Statement, |shard| async move {
            let path = std::path::Path::new("/proc/version");
            let file = shard.files().open(path, OpenOptions::read().with_direct(true)).await.unwrap();
            let text = file.read_at(0, 5, runtime::IoClass::Statement).await.unwrap();
            (file.is_direct(), text.to_vec())
        });
        assert_eq!(opened.wait().unwrap(), (false, b"Linux".to_vec()));
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// Lets the kernel refuse these system calls for this thread and the threads it starts, as container hosts
/// do.
fn forbid(calls: &[libc::c_long]) {
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let number = statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0);
    let mut program = vec![number];
    for call in calls {
        program.push(statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, *call as u32));
        let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        program.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, refuse));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives until the calls return; the kernel copies and verifies it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter), 0);
    }
}

#[test]
fn auto_falls_back_where_io_uring_and_aio_are_blocked() {
    let cases: [(&[libc::c_long], BackendKind, BackendChoice); 2] = [
        (&[libc::SYS_io_uring_setup], BackendKind::LinuxAio, BackendChoice::IoUring),
        (&[libc::SYS_io_uring_setup, libc::SYS_io_setup], BackendKind::Threads, BackendChoice::LinuxAio),
    ];
    for (calls, expected, forced) in cases {
        let blocked = thread::Builder::new().spawn(move || {
            forbid(calls);
            let runtime = Runtime::start(RuntimeOptions::default(), |_| async {}).unwrap();
            let in_use = runtime.backend_in_use();
            assert_eq!((in_use.kind, in_use.unavailable.len()), (expected, calls.len()), "{in_use}");
            assert!(
                in_use.to_string().contains("io_uring is unavailable: Operation not permitted"),
                "{in_use}"
            );
            runtime.shutdown().unwrap();
            let options = RuntimeOptions { backend: forced, ..RuntimeOptions::default() };
            let error = Runtime::start(options, |_| async {}).unwrap_err();
            assert!(error.to_string().contains("Operation not permitted"), "{error}");
        });
        blocked.unwrap().join().unwrap();
    }
}
