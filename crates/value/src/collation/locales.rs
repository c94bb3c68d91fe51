//! The locales of MongoDB 6.0 by its names, and what the rules of each are called in BCP 47.

/// A locale that MongoDB knows.
#[derive(Debug)]
pub(super) struct Locale {
    /// As MongoDB names it.
    pub name: &'static str,
    /// As BCP 47 does.
    pub tag: &'static str,
    /// Whether it has rules of its own beside those that all locales share.
    is_tailored: bool,
}

impl Locale {
    /// The tag of the rules with accents weighed from the last letter to the first or not; `None` where
    /// there are none. Only `fr-CA` weighs backwards, which otherwise has the rules that all share.
    pub fn tag(&self, backwards: bool) -> Option<&'static str> {
        match (self.name, backwards) {
            ("fr_CA", false) => Some("fr"),
            ("fr_CA", true) => Some(self.tag),
            (_, false) => Some(self.tag),
            (_, true) => (!self.is_tailored).then_some("fr-CA"),
        }
    }
}

/// The locale with this name.
pub(super) fn find(name: &str) -> Option<&'static Locale> {
    LOCALES.iter().find(|locale| locale.name == name)
}

/// The names of all locales.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    LOCALES.iter().map(|locale| locale.name)
}

/// Whether MongoDB knows the locale, but has rules for it that the library lacks.
pub(super) fn is_without_rules(name: &str) -> bool {
    let Some((language, kind)) = name.split_once("@collation=") else {
        return WITHOUT_RULES.contains(&name);
    };
    match kind {
        "search" | "emoji" | "eor" => find(language).is_some() || WITHOUT_RULES.contains(&language),
        "searchjl" => language == "ko",
        "big5han" | "gb2312han" => matches!(language, "zh" | "zh_Hant"),
        "phonetic" => language == "ln",
        _ => false,
    }
}

/// Languages whose rules ICU 57 has and ICU4X 2.4 has not.
const WITHOUT_RULES: [&str; 6] = ["haw", "kl", "lkt", "se", "smn", "yi"];

/// Source: the locales that MongoDB 6.0.5 accepts (ICU 57); `is_tailored` is whether ICU4X 2.4 has data for it.
const LOCALES: [Locale; 121] = [
    tailored("af", "af"),
    tailored("am", "am"),
    tailored("ar", "ar"),
    tailored("ar@collation=compat", "ar-u-co-compat"),
    tailored("as", "as"),
    tailored("az", "az"),
    tailored("be", "be"),
    tailored("bg", "bg"),
    tailored("bn", "bn"),
    tailored("bn@collation=traditional", "bn-u-co-trad"),
    shared("bo"),
    tailored("bs", "bs"),
    tailored("bs_Cyrl", "bs-Cyrl"),
    shared("ca"),
    tailored("chr", "chr"),
    tailored("cs", "cs"),
    tailored("cy", "cy"),
    tailored("da", "da"),
    shared("de"),
    shared_as("de_AT", "de-AT"),
    tailored("de@collation=phonebook", "de-u-co-phonebk"),
    tailored("de_AT@collation=phonebook", "de-AT-u-co-phonebk"),
    tailored("dsb", "dsb"),
    shared("dz"),
    tailored("ee", "ee"),
    tailored("el", "el"),
    shared("en"),
    shared_as("en_US", "en-US"),
    tailored("en_US_POSIX", "en-US-posix"),
    tailored("eo", "eo"),
    tailored("es", "es"),
    tailored("es@collation=traditional", "es-u-co-trad"),
    tailored("et", "et"),
    tailored("fa", "fa"),
    tailored("fa_AF", "fa-AF"),
    tailored("fi", "fi"),
    tailored("fi@collation=traditional", "fi-u-co-trad"),
    tailored("fil", "fil"),
    tailored("fo", "fo"),
    shared("fr"),
    tailored("fr_CA", "fr-CA"),
    shared("ga"),
    tailored("gl", "gl"),
    tailored("gu", "gu"),
    tailored("ha", "ha"),
    tailored("he", "he"),
    tailored("hi", "hi"),
    tailored("hr", "hr"),
    tailored("hsb", "hsb"),
    tailored("hu", "hu"),
    tailored("hy", "hy"),
    shared("id"),
    tailored("ig", "ig"),
    tailored("is", "is"),
    shared("it"),
    tailored("ja", "ja"),
    tailored("ja@collation=unihan", "ja-u-co-unihan"),
    tailored("ka", "ka"),
    tailored("kk", "kk"),
    tailored("km", "km"),
    tailored("kn", "kn"),
    tailored("kn@collation=traditional", "kn-u-co-trad"),
    tailored("ko", "ko"),
    tailored("ko@collation=unihan", "ko-u-co-unihan"),
    tailored("kok", "kok"),
    tailored("ky", "ky"),
    shared("lb"),
    shared("ln"),
    tailored("lo", "lo"),
    tailored("lt", "lt"),
    tailored("lv", "lv"),
    tailored("mk", "mk"),
    tailored("ml", "ml"),
    tailored("mn", "mn"),
    tailored("mr", "mr"),
    shared("ms"),
    tailored("mt", "mt"),
    tailored("my", "my"),
    tailored("nb", "nb"),
    tailored("ne", "ne"),
    shared("nl"),
    tailored("nn", "nn"),
    tailored("om", "om"),
    tailored("or", "or"),
    tailored("pa", "pa"),
    tailored("pl", "pl"),
    tailored("ps", "ps"),
    shared("pt"),
    tailored("ro", "ro"),
    tailored("ru", "ru"),
    tailored("si", "si"),
    tailored("si@collation=dictionary", "si-u-co-dict"),
    tailored("sk", "sk"),
    tailored("sl", "sl"),
    tailored("sq", "sq"),
    tailored("sr", "sr"),
    tailored("sr_Latn", "sr-Latn"),
    tailored("sv", "sv"),
    tailored("sv@collation=standard", "sv-u-co-trad"),
    shared("sw"),
    tailored("ta", "ta"),
    tailored("te", "te"),
    tailored("th", "th"),
    tailored("to", "to"),
    tailored("tr", "tr"),
    tailored("ug", "ug"),
    tailored("uk", "uk"),
    tailored("ur", "ur"),
    tailored("vi", "vi"),
    tailored("vi@collation=traditional", "vi-u-co-trad"),
    shared("wae"),
    tailored("yo", "yo"),
    tailored("zh", "zh"),
    tailored("zh@collation=stroke", "zh-u-co-stroke"),
    tailored("zh@collation=zhuyin", "zh-u-co-zhuyin"),
    tailored("zh@collation=unihan", "zh-u-co-unihan"),
    tailored("zh_Hant", "zh-Hant"),
    tailored("zh_Hant@collation=pinyin", "zh-Hant-u-co-pinyin"),
    tailored("zh_Hant@collation=zhuyin", "zh-Hant-u-co-zhuyin"),
    tailored("zh_Hant@collation=unihan", "zh-Hant-u-co-unihan"),
    shared("zu"),
];

const fn tailored(name: &'static str, tag: &'static str) -> Locale {
    Locale {
        name,
        tag,
        is_tailored: true,
    }
}

const fn shared(name: &'static str) -> Locale {
    shared_as(name, name)
}

const fn shared_as(name: &'static str, tag: &'static str) -> Locale {
    Locale {
        name,
        tag,
        is_tailored: false,
    }
}
