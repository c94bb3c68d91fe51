//! Regular expressions that need backtracking: look-around, back-references, recursion. PCRE2 runs them.
//!
//! In: a pattern that the linear engine cannot run. Out: matches and what their groups captured. How long a search
//! takes has no bound that the pattern's length gives, so it is bounded here: PCRE2 calls back before each item of the
//! pattern, which is a step; a search may take [`STEPS_MAX`] of them, and now and then the statement is asked whether it is
//! to end. Patterns that are too large with these calls are searched in windows of [`WINDOW_BYTES`], and asked between.

// PCRE2 is a C library. Its safe crate can set neither limits nor where a search ends.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use crate::operation;
use crate::operation::memory::Reservation;
use pcre2_sys::*;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};

/// Steps of a search, some nanoseconds each.
const STEPS_MAX: u64 = 500_000_000;
/// After so many steps the statement is asked whether it is to end: a step compares up to a whole text.
const STEPS_BETWEEN_CHECKS: u64 = 256;
/// What PCRE2 counts of a match that begins at one place: its own default.
const BACKTRACKS_MAX: u32 = 10_000_000;
/// Places at which a match may begin, between two questions whether the statement is to end.
const WINDOW_BYTES: usize = 64;
/// What compiled code may use of a stack of its own, one a thread. What needs more is interpreted.
const STACK_BYTES_MAX: usize = 256 << 10;
/// What the interpreter may keep of places to go back to.
const HEAP_BYTES_MAX: usize = 16 << 20;

/// How messages of failed searches begin.
pub const FAILED: &str = "Error occurred while executing the regular expression in";

/// What the options of a pattern ask for.
#[derive(Debug, Default, Clone, Copy)]
pub struct PatternOptions {
    pub ignore_case: bool,
    pub multi_line: bool,
    pub dot_all: bool,
    pub extended: bool,
}

/// A pattern compiled for PCRE2.
#[derive(Debug)]
pub struct Backtracking {
    code: NonNull<pcre2_code_8>,
    groups: u32,
    /// Whether each step of a search is told, so that it needs no windows.
    calls_back: bool,
    /// Whether the pattern asks where the search began (`\G`), so that it must not begin anew in windows.
    asks_start: bool,
    /// What the program takes.
    _memory: Reservation,
}

// SAFETY: compiled code is not written after it has been made ("thread safety" in pcre2api).
unsafe impl Send for Backtracking {}
// SAFETY: as above.
unsafe impl Sync for Backtracking {}

impl Drop for Backtracking {
    fn drop(&mut self) {
        // SAFETY: made by `pcre2_compile_8`, freed once.
        unsafe { pcre2_code_free_8(self.code.as_ptr()) }
    }
}

impl Backtracking {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// 51091 with PCRE's reason for a broken pattern; `ExceededMemoryLimit`.
    pub fn new(source: &str, options: PatternOptions) -> Result<Self> {
        // PCRE's name of the verb; PCRE2 has the other one, which is set anyway.
        let pattern = source.strip_prefix("(*UTF8)").unwrap_or(source);
        let flags = [
            (options.ignore_case, PCRE2_CASELESS),
            (options.multi_line, PCRE2_MULTILINE),
            (options.dot_all, PCRE2_DOTALL),
            (options.extended, PCRE2_EXTENDED),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set);
        let bits = flags.fold(PCRE2_UTF, |bits, flag| bits | flag.1);
        let (code, calls_back) = match compile(pattern, bits | PCRE2_AUTO_CALLOUT) {
            Err(error) if error == PCRE2_ERROR_PATTERN_TOO_LARGE as i32 => {
                (compile(pattern, bits | PCRE2_USE_OFFSET_LIMIT), false)
            }
            compiled => (compiled, true),
        };
        let code = code.map_err(|error| super::invalid(&reason(error)))?;
        let mut program = Self {
            code,
            groups: 0,
            calls_back,
            asks_start: pattern.contains("\\G"),
            _memory: Reservation::none(),
        };
        // SAFETY: the code is ours alone yet. Where it cannot be compiled it is interpreted.
        unsafe { pcre2_jit_compile_8(code.as_ptr(), PCRE2_JIT_COMPLETE) };
        program.groups = program.information(PCRE2_INFO_CAPTURECOUNT, 0_u32) + 1;
        let bytes: usize = program.information(PCRE2_INFO_SIZE, 0_usize)
            + program.information(PCRE2_INFO_JITSIZE, 0_usize);
        program._memory = Reservation::exactly(bytes)?;
        Ok(program)
    }

    /// What PCRE2 knows of the code, of the type that `what` has.
    fn information<T>(&self, what: u32, mut answer: T) -> T {
        // SAFETY: callers give a value of the type that pcre2_pattern_info(3) has for `what`.
        unsafe { pcre2_pattern_info_8(self.code.as_ptr(), what, (&raw mut answer).cast()) };
        answer
    }

    /// Whether the text has a match anywhere.
    ///
    /// # Errors
    /// As [`Self::find_at`].
    pub fn is_match(&self, text: &str) -> Result<bool> {
        Ok(self.search(text, 0, 1)?.is_some())
    }

    /// The first match that begins at `start` or behind, and its groups.
    ///
    /// # Errors
    /// 51156 where it takes too many steps or too much memory; those of `operation::check`.
    pub fn find_at(&self, text: &str, start: usize) -> Result<Option<CapturedGroups>> {
        self.search(text, start, self.groups)
    }

    fn search(&self, text: &str, start: usize, groups: u32) -> Result<Option<CapturedGroups>> {
        let mut watch = SearchWatch::default();
        let mut from = start;
        loop {
            let last = match self.calls_back || self.asks_start {
                true => text.len(),
                false => text.ceil_char_boundary((from + WINDOW_BYTES).min(text.len())),
            };
            let found = self.search_window(text, from, last, groups, &mut watch)?;
            if found.is_some() || last == text.len() {
                return Ok(found);
            }
            from = text.ceil_char_boundary(last + 1);
            operation::check()?;
        }
    }

    /// The first match that begins between two places, the last included.
    fn search_window(
        &self,
        text: &str,
        from: usize,
        last: usize,
        groups: u32,
        watch: &mut SearchWatch,
    ) -> Result<Option<CapturedGroups>> {
        let matched = SCRATCH.with(|scratch| {
            scratch.set_limits(self.backtracks_max(text), last, text.len());
            match self.match_once(text, from, 0, groups, scratch, watch) {
                Err(PCRE2_ERROR_JIT_STACKLIMIT) => {
                    let mut memory = Reservation::none();
                    memory.grow(HEAP_BYTES_MAX)?;
                    Ok(self.match_once(text, from, PCRE2_NO_JIT, groups, scratch, watch))
                }
                answer => Ok::<_, Error>(answer),
            }
        })?;
        matched.map_err(|error| {
            if let Some(ended) = watch.ended.take() {
                return ended;
            }
            // The codes are those of PCRE, which mongod has.
            let code = if error == PCRE2_ERROR_MATCHLIMIT {
                -8
            } else {
                -21
            };
            let message = format!(
                "{FAILED} $regex. Result code: {code}: it takes too many steps or too much memory"
            );
            Error::location(51156, message)
        })
    }

    /// What PCRE2 may count of a match that begins at one place; less where nobody asks between whether to end.
    fn backtracks_max(&self, text: &str) -> u32 {
        let is_asked = self.calls_back || !self.asks_start;
        let windows = (text.len() / WINDOW_BYTES).max(1);
        match is_asked {
            true => BACKTRACKS_MAX,
            false => (BACKTRACKS_MAX / u32::try_from(windows).unwrap_or(u32::MAX)).max(1),
        }
    }

    fn match_once(
        &self,
        text: &str,
        from: usize,
        options: u32,
        groups: u32,
        scratch: &MatchScratch,
        watch: &mut SearchWatch,
    ) -> std::result::Result<Option<CapturedGroups>, i32> {
        // SAFETY: code and context live; the text is valid UTF-8 and `from` begins a character in it, so that PCRE2
        // need not check; the ovector has `groups` pairs; the watch outlives the match, behind which nobody has it.
        unsafe {
            pcre2_set_callout_8(scratch.context, Some(on_step), (&raw mut *watch).cast());
            let data = pcre2_match_data_create_8(groups, null_mut());
            assert!(!data.is_null(), "memory for a few offsets");
            let code = pcre2_match_8(
                self.code.as_ptr(),
                text.as_ptr(),
                text.len(),
                from,
                PCRE2_NO_UTF_CHECK | options,
                data,
                scratch.context,
            );
            let answer = match code {
                PCRE2_ERROR_NOMATCH => Ok(None),
                0.. => {
                    let offsets = pcre2_get_ovector_pointer_8(data);
                    let offsets = std::slice::from_raw_parts(offsets, 2 * groups as usize);
                    Ok(Some(ranges(offsets)))
                }
                code => Err(code),
            };
            pcre2_match_data_free_8(data);
            pcre2_set_callout_8(scratch.context, None, null_mut());
            answer
        }
    }
}

unsafe extern "C" {
    /// See pcre2_set_callout(3); the crate's bindings leave it out.
    fn pcre2_set_callout_8(
        context: *mut pcre2_match_context_8,
        callout: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> i32>,
        data: *mut c_void,
    ) -> i32;
}

/// What is known of a search while it runs.
#[derive(Default)]
struct SearchWatch {
    steps: u64,
    /// Why the statement has to end.
    ended: Option<Error>,
}

/// PCRE2 calls it before each item of the pattern; what is negative ends the search.
unsafe extern "C" fn on_step(_: *mut c_void, watch: *mut c_void) -> i32 {
    // SAFETY: `match_once` gives a watch that nobody else uses meanwhile.
    let watch = unsafe { &mut *watch.cast::<SearchWatch>() };
    watch.steps += 1;
    if !watch.steps.is_multiple_of(STEPS_BETWEEN_CHECKS) {
        return 0;
    }
    if watch.steps > STEPS_MAX {
        return PCRE2_ERROR_MATCHLIMIT;
    }
    match operation::check() {
        Ok(()) => 0,
        Err(ended) => {
            watch.ended = Some(ended);
            PCRE2_ERROR_CALLOUT
        }
    }
}

/// Compiled code, or PCRE2's code of what is wrong.
fn compile(pattern: &str, options: u32) -> std::result::Result<NonNull<pcre2_code_8>, i32> {
    let (mut error, mut offset) = (0, 0);
    // SAFETY: pointer and length are those of a string; the outputs live.
    let code = unsafe {
        pcre2_compile_8(
            pattern.as_ptr(),
            pattern.len(),
            options,
            &mut error,
            &mut offset,
            null_mut(),
        )
    };
    NonNull::new(code).ok_or(error)
}

/// Where a match lies, then where each of its groups does.
pub type CapturedGroups = Vec<Option<Range<usize>>>;

fn ranges(offsets: &[usize]) -> CapturedGroups {
    let range = |pair: &[usize]| match pair[0] {
        PCRE2_UNSET => None,
        // `\K` in a look-ahead may set the beginning behind the end.
        start => Some(start.min(pair[1])..pair[1]),
    };
    offsets.chunks_exact(2).map(range).collect()
}

/// What searches of a thread share.
struct MatchScratch {
    context: *mut pcre2_match_context_8,
    stack: *mut pcre2_jit_stack_8,
}

thread_local! {
    static SCRATCH: MatchScratch = MatchScratch::new();
}

impl MatchScratch {
    fn new() -> Self {
        // SAFETY: made here and freed in `drop`.
        unsafe {
            let context = pcre2_match_context_create_8(null_mut());
            let stack = pcre2_jit_stack_create_8(32 << 10, STACK_BYTES_MAX, null_mut());
            assert!(!context.is_null() && !stack.is_null(), "memory for a stack");
            pcre2_jit_stack_assign_8(context, None, stack.cast());
            pcre2_set_heap_limit_8(context, (HEAP_BYTES_MAX >> 10) as u32);
            Self { context, stack }
        }
    }
}

impl MatchScratch {
    /// Sets the most that PCRE2 may count, and the last place at which a match may begin.
    fn set_limits(&self, backtracks_max: u32, last: usize, length: usize) {
        let last = if last == length { PCRE2_UNSET } else { last };
        // SAFETY: the context is this thread's.
        unsafe {
            pcre2_set_offset_limit_8(self.context, last);
            pcre2_set_match_limit_8(self.context, backtracks_max);
        }
    }
}

impl Drop for MatchScratch {
    fn drop(&mut self) {
        // SAFETY: made in `new`, freed once.
        unsafe {
            pcre2_match_context_free_8(self.context);
            pcre2_jit_stack_free_8(self.stack);
        }
    }
}

/// Why a pattern does not compile, in the words of PCRE, which mongod has, where PCRE2 has others.
fn reason(error: i32) -> String {
    if let Some((_, words)) = PCRE_WORDS.iter().find(|(code, _)| *code == error) {
        return (*words).to_owned();
    }
    let mut text = [0_u8; 256];
    // SAFETY: pointer and length are the buffer's.
    let length = unsafe { pcre2_get_error_message_8(error, text.as_mut_ptr(), text.len()) };
    String::from_utf8_lossy(&text[..usize::try_from(length).unwrap_or(0)]).into_owned()
}

/// PCRE2's codes of errors, and what PCRE says.
const PCRE_WORDS: [(i32, &str); 20] = [
    (109, "nothing to repeat"),
    (111, "unrecognized character after (? or (?-"),
    (112, "POSIX named classes are supported only within a class"),
    (114, "missing )"),
    (115, "reference to non-existent subpattern"),
    (118, "missing ) after comment"),
    (122, "unmatched parentheses"),
    (125, "lookbehind assertion is not fixed length"),
    (126, "malformed number or name after (?("),
    (128, "assertion expected after (?( or (?(?C)"),
    (134, "character value in \\x{} or \\o{} is too large"),
    (
        137,
        "PCRE does not support \\L, \\l, \\N{name}, \\U, or \\u",
    ),
    (138, "number after (?C is > 255"),
    (139, "closing ) for (?C expected"),
    (142, "syntax error in subpattern name (missing terminator)"),
    (143, "two named subpatterns have the same name"),
    (147, "unknown property name after \\P or \\p"),
    (
        157,
        "\\g is not followed by a braced, angle-bracketed, or quoted name/number or by a plain number",
    ),
    (144, "group name must start with a non-digit"),
    (163, "digit expected after (?+"),
];
