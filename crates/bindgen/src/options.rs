//! Options that bindgen accepts. They have no effect here, because they were already in effect when
//! bindgen generated the returned text.

use crate::Builder;

/// Calling conventions.
#[derive(Clone, Copy, Debug)]
pub enum Abi {
    /// C, with errors that unwind.
    CUnwind,
}

/// How unions are represented whose fields cannot be copied.
#[derive(Clone, Copy, Debug)]
pub enum NonCopyUnionStyle {
    /// Each field in a `ManuallyDrop`.
    ManuallyDrop,
}

/// How enums are represented.
#[derive(Clone, Copy, Debug)]
pub enum EnumVariation {
    /// A module of constants for each.
    ModuleConsts,
}

/// Would make cargo build again when a header changes. The headers are those of a released crate.
#[derive(Clone, Copy, Debug, Default)]
pub struct CargoCallbacks;

impl CargoCallbacks {
    /// Returns callbacks that do nothing.
    pub fn new() -> CargoCallbacks {
        CargoCallbacks
    }
}

/// Options without effect.
#[allow(
    missing_docs,
    reason = "each is described at the option of bindgen with its name"
)]
impl Builder {
    #[must_use]
    pub fn header(self, _path: impl AsRef<str>) -> Builder {
        self
    }

    #[must_use]
    pub fn generate_comments(self, _is_on: bool) -> Builder {
        self
    }

    #[must_use]
    #[allow(clippy::boxed_local, reason = "the build script gives a box")]
    pub fn parse_callbacks(self, _callbacks: Box<CargoCallbacks>) -> Builder {
        self
    }

    #[must_use]
    pub fn allowlist_file(self, _path: impl AsRef<str>) -> Builder {
        self
    }

    #[must_use]
    pub fn allowlist_item(self, _name: impl AsRef<str>) -> Builder {
        self
    }

    #[must_use]
    pub fn blocklist_item(self, _name: impl AsRef<str>) -> Builder {
        self
    }

    #[must_use]
    pub fn clang_arg(self, _argument: impl AsRef<str>) -> Builder {
        self
    }

    #[must_use]
    pub fn derive_copy(self, _is_on: bool) -> Builder {
        self
    }

    #[must_use]
    pub fn derive_debug(self, _is_on: bool) -> Builder {
        self
    }

    #[must_use]
    pub fn default_non_copy_union_style(self, _style: NonCopyUnionStyle) -> Builder {
        self
    }

    #[must_use]
    pub fn default_enum_style(self, _style: EnumVariation) -> Builder {
        self
    }

    #[must_use]
    pub fn override_abi(self, _abi: Abi, _name: impl AsRef<str>) -> Builder {
        self
    }

    #[must_use]
    pub fn wrap_static_fns(self, _is_on: bool) -> Builder {
        self
    }
}
