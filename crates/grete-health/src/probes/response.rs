//! HTTP response of a probe and its encoding.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::json::Json;

const JSON: &str = "application/json";
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Response to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status code.
    pub status: u16,
    /// Value of the Content-Type header.
    pub content_type: &'static str,
    /// Body.
    pub body: Vec<u8>,
}

impl Response {
    /// Creates a JSON response.
    #[must_use]
    pub fn json(status: u16, json: Json) -> Self {
        let mut body = json.into_bytes();
        body.push(b'\n');
        Self { status, content_type: JSON, body }
    }

    /// Creates an error response: JSON with the field `error`.
    #[must_use]
    pub fn error(status: u16, text: &str) -> Self {
        let mut json = Json::default();
        json.open(b'{').name("error").string(text);
        json.close(b'}');
        Self::json(status, json)
    }
}

/// Appends status line and headers of a response to `out`. `length`: of the body in bytes. `keep_alive`: the connection
/// stays open.
pub(super) fn write_head(out: &mut Vec<u8>, status: u16, content_type: &str, length: usize, keep_alive: bool) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    // a write to a vector cannot fail
    let _ = write!(
        out,
        "HTTP/1.1 {status} {}\r\nDate: {}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n{allow}Connection: {}\r\n\r\n",
        reason_phrase(status),
        http_date(since),
        if keep_alive { "keep-alive" } else { "close" },
    );
}

fn reason_phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}

/// Formats a time, given in seconds since 1970, as an HTTP date.
fn http_date(since: u64) -> String {
    let (days, second) = (since / 86_400, since % 86_400);
    let weekday = usize::try_from(days % 7).ok().and_then(|at| DAYS.get(at)).unwrap_or(&"Thu");
    // In years that begin in March the leap day comes last; 400 such years have 146,097 days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    let month = usize::try_from(month).ok().and_then(|at| MONTHS.get(at)).unwrap_or(&"Jan");
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (since, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (1_735_689_600, "Wed, 01 Jan 2025 00:00:00 GMT"),
        ] {
            assert_eq!(http_date(since), text);
        }
    }
}
