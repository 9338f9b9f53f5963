//! Keeps the covers of lost partitions. Many reads of a lost partition follow one another, and a
//! search for a cover takes long if much is lost.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use placement::Cover;
use protocol::configuration::Configuration;
use protocol::configuration::routes::cover_of_lost;
use protocol::identity::{CoreId, PartitionId};

/// The most covers that are kept. A cover has up to some hundred members.
const COVERS_MAX: usize = 1024;

/// The covers by one configuration without some cores. They are forgotten when either changes.
#[derive(Debug, Default)]
pub(super) struct Covers {
    configuration: Option<Arc<Configuration>>,
    unreachable: BTreeSet<CoreId>,
    found: BTreeMap<PartitionId, Option<Arc<Cover>>>,
}

impl Covers {
    /// Returns the cheapest cover of a lost partition that avoids the unreachable cores; none if
    /// there is none.
    pub(super) fn of(
        &mut self,
        configuration: &Arc<Configuration>,
        unreachable: BTreeSet<CoreId>,
        lost: PartitionId,
    ) -> Option<Arc<Cover>> {
        let known = self.configuration.as_ref();
        let same = known.is_some_and(|known| Arc::ptr_eq(known, configuration));
        if !same || self.unreachable != unreachable || self.found.len() >= COVERS_MAX {
            self.found.clear();
            self.configuration = Some(configuration.clone());
            self.unreachable = unreachable;
        }
        let unreachable = &self.unreachable;
        let search = || {
            let is_reachable = |core| !unreachable.contains(&core);
            cover_of_lost(configuration, lost, &is_reachable).map(Arc::new)
        };
        self.found.entry(lost).or_insert_with(search).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::redirect::apart;
    use crate::tests::{core, partition};

    #[test]
    fn a_cover_is_kept_until_the_cores_or_the_configuration_change() {
        let mut covers = Covers::default();
        let lost = partition(0, 0);
        let before = apart(2, &[1]);
        let all = BTreeSet::new();
        let first = covers.of(&before, all.clone(), lost).unwrap();
        let second = covers.of(&before, all.clone(), lost).unwrap();
        assert!(Arc::ptr_eq(&first, &second), "it was searched again");
        assert_eq!(covers.of(&before, BTreeSet::from([core(2)]), lost), None);
        assert_eq!(covers.of(&before, all.clone(), lost).as_ref(), Some(&first));
        assert_eq!(covers.of(&apart(3, &[1, 2]), all.clone(), lost), None);
        assert_eq!(covers.of(&before, all, lost), Some(first));
    }
}
