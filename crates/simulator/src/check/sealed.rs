//! R16 and R5: a core that ends an epoch reports to a peer only what is durable. Its seal, with the
//! log up to it, is durable before the core reports its part of the log. The outcomes are durable
//! before the core reports them.

use protocol::identity::CoreId;

/// Checks a core that reports the contents of its log.
pub fn reported(core: CoreId, has_sealed: bool) -> Result<(), String> {
    match has_sealed {
        true => Ok(()),
        false => Err(format!(
            "{core} reports what its log holds before its disk has the seal"
        )),
    }
}

/// Checks a core that reports that it has resolved all operations (R5).
pub fn resolved(core: CoreId, is_durable: bool) -> Result<(), String> {
    match is_durable {
        true => Ok(()),
        false => Err(format!(
            "{core} reports outcomes of an epoch's end before its disk has them"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_reported_without_a_seal() {
        assert!(reported(CoreId::default(), true).is_ok());
        assert!(reported(CoreId::default(), false).is_err());
        assert!(resolved(CoreId::default(), true).is_ok());
        assert!(resolved(CoreId::default(), false).is_err());
    }
}
