//! R16: a core that ends an epoch has made durable that it has sealed, and with it all that its log
//! had, before it tells anybody what that is.

use protocol::identity::CoreId;

/// A core tells what its log holds.
pub fn told(core: CoreId, has_sealed: bool) -> Result<(), String> {
    match has_sealed {
        true => Ok(()),
        false => Err(format!(
            "{core} tells what its log holds before its disk has the seal"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_without_a_seal() {
        assert!(told(CoreId::default(), true).is_ok());
        assert!(told(CoreId::default(), false).is_err());
    }
}
