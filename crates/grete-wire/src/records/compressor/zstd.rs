//! zstd (RFC 8878), in one shot: the frame says how large it unpacks, so that readers reserve once.

use zstd::zstd_safe::{CCtx, ErrorCode, get_error_name};

/// ZSTD_error_dstSize_tooSmall, as its functions return it.
const OUTPUT_TOO_SMALL: ErrorCode = 0usize.wrapping_sub(70);
/// zstd's own, and Java's.
const DEFAULT_LEVEL: i32 = 3;

/// One context, used from batch to batch.
#[derive(Default)]
pub(super) struct Zstd {
    context: Option<CCtx<'static>>,
}

impl Zstd {
    /// Bytes written to `room`; `None` if it is too small.
    pub fn pack(&mut self, level: Option<i32>, plain: &[u8], room: &mut [u8]) -> Result<Option<usize>, &'static str> {
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(CCtx::try_create().ok_or("there is no memory for its context")?),
        };
        match context.compress(room, plain, level.unwrap_or(DEFAULT_LEVEL)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(OUTPUT_TOO_SMALL) => Ok(None),
            Err(code) => Err(get_error_name(code)),
        }
    }
}
