//! Descriptor that other threads signal and that a selector can wait on.
//!
//! `kernel`: eventfd(2), on Linux. `pipe`: any other Unix, and `--cfg grete_portable`.
#![allow(unsafe_code)]

#[cfg(all(target_os = "linux", not(grete_portable)))]
mod kernel;
#[cfg(any(test, not(all(target_os = "linux", not(grete_portable)))))]
pub(crate) mod pipe;

#[cfg(all(target_os = "linux", not(grete_portable)))]
pub use kernel::EventFd;
#[cfg(not(all(target_os = "linux", not(grete_portable))))]
pub use pipe::EventFd;

#[cfg(test)]
mod tests {
    macro_rules! tests_of {
        ($backend:ident, $event:ty) => {
            mod $backend {
                use std::os::fd::AsRawFd;

                type Event = $event;

                fn is_readable(event: &Event) -> bool {
                    let mut poll = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                    // SAFETY: one live pollfd.
                    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
                }

                #[test]
                fn it_is_readable_from_signal_to_clear() {
                    let event = Event::new().expect("a descriptor");
                    assert!(!is_readable(&event));
                    event.signal();
                    event.signal();
                    assert!(is_readable(&event));
                    event.clear();
                    assert!(!is_readable(&event));
                    event.clear(); // does not block
                }

                #[test]
                fn any_number_of_signals_does_not_block_and_is_cleared_at_once() {
                    let event = Event::new().expect("a descriptor");
                    for _ in 0..100_000 {
                        event.signal(); // more than a pipe holds
                    }
                    event.clear();
                    assert!(!is_readable(&event));
                }
            }
        };
    }

    #[cfg(all(target_os = "linux", not(grete_portable)))]
    tests_of!(kernel, crate::event_fd::kernel::EventFd);
    tests_of!(pipe, crate::event_fd::pipe::EventFd);
}
