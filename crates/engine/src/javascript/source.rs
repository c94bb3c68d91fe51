//! What of a client's text is a function: the whole of it, or the body of one.

/// What a text may mean, the likeliest first: each as an expression whose value is a function, to be tried in turn.
///
/// As in mongod, a text may be a function, or the body of one; of a body without `return` the value of its last
/// expression is returned.
pub(super) fn readings(source: &str) -> Vec<String> {
    let text = without_comments(source);
    let mut readings = Vec::new();
    if text.trim_matches([';', ' ']).is_empty() {
        // Nothing that could be returned: an error in mongod, too.
        return vec!["(function() { return (\n) })".to_owned()];
    }
    if is_function(text) {
        readings.push(format!("({}\n)", text.trim_end_matches([';', ' '])));
    }
    let is_block = text.starts_with('{');
    if !is_block && !text.starts_with("class ") {
        let expression = text.trim_end_matches(|last: char| last == ';' || last.is_whitespace());
        readings.push(format!("(function() {{ return ({expression}\n) }})"));
    }
    if !is_block {
        readings.push(evaluated(text));
    }
    readings.push(format!("(function() {{{text}\n}})"));
    readings
}

/// The function that returns the value of a text's last expression.
fn evaluated(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let unevaluated = serde_json::Value::from(format!("throw 0; {text}")).to_string();
    // What is no program, or has a `return` outside of functions, is refused here and now.
    format!(
        "((function() {{ try {{ eval({unevaluated}) }} catch (error) {{ if (error !== 0) throw error }} }})(), \
         function() {{ return eval({quoted}) }})"
    )
}

/// Whether a text begins as a function does: with the word, and what may follow it.
fn is_function(text: &str) -> bool {
    let text = match text.strip_prefix("async") {
        Some(rest) if rest.starts_with(char::is_whitespace) => rest.trim_start(),
        _ => text,
    };
    text.strip_prefix("function").is_some_and(|rest| {
        rest.starts_with(|next: char| "(*".contains(next) || next.is_whitespace())
    })
}

/// A text without the blanks and comments that it begins with, and the blanks at its end.
fn without_comments(source: &str) -> &str {
    let mut text = source.trim();
    loop {
        let rest = if let Some(comment) = text.strip_prefix("//") {
            comment.split_once('\n').map_or("", |(_, rest)| rest)
        } else if let Some((_, rest)) = text
            .strip_prefix("/*")
            .and_then(|comment| comment.split_once("*/"))
        {
            rest
        } else {
            return text;
        };
        text = rest.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_from_bodies() {
        for (text, first) in [
            ("function() { return 1 }", "(function() { return 1 }\n)"),
            (
                "/* a */ // b\nfunction(x) { return x };",
                "(function(x) { return x }\n)",
            ),
            // As in mongod: the function is what is returned.
            (
                "(a, b) => a + b;",
                "(function() { return ((a, b) => a + b\n) })",
            ),
            ("this.a == 1;", "(function() { return (this.a == 1\n) })"),
            ("(this.a) == 1", "(function() { return ((this.a) == 1\n) })"),
        ] {
            assert_eq!(readings(text)[0], first);
        }
        assert!(
            readings("{}")
                .iter()
                .all(|reading| !reading.contains("({}"))
        );
    }
}
