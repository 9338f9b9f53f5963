//! Defines how a model lists the planted bugs that it must find: for each rule a variant of the
//! model that breaks it.

/// Defines the bugs of one model: description, name, broken rule and the case in which it shows.
macro_rules! planted_bugs {
    ($type:ident
     $($(#[doc = $text:literal])+ $bug:ident = $name:literal, $rule:literal, $case:literal;)+) => {
        /// A planted bug: it breaks one rule on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $($(#[doc = $text])+ $bug,)+
        }

        impl $type {
            /// All planted bugs of this model.
            pub const ALL: &[$type] = &[$($type::$bug),+];

            /// Returns the bug's name on the command line.
            pub fn name(self) -> &'static str {
                match self { $($type::$bug => $name),+ }
            }

            /// Returns the rule that the bug breaks.
            pub fn rule(self) -> &'static str {
                match self { $($type::$bug => $rule),+ }
            }

            /// Returns a description of the bug's effect.
            pub fn description(self) -> &'static str {
                match self { $($type::$bug => concat!($($text),+)),+ }
            }

            /// Returns the name of the case in which the search finds the bug.
            pub fn case_name(self) -> &'static str {
                match self { $($type::$bug => $case),+ }
            }

            /// Returns the bug together with the search that finds it.
            pub fn studied(
                self,
                search: impl Fn($crate::search::SearchLimits) -> $crate::study::Findings + 'static,
            ) -> $crate::study::StudiedBug {
                $crate::study::StudiedBug {
                    name: self.name(),
                    rule: self.rule(),
                    description: self.description(),
                    case: self.case_name(),
                    search: Box::new(search),
                }
            }
        }
    };
}

pub(crate) use planted_bugs;
