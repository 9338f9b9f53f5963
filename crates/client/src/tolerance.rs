//! Raises and lowers the number of failures that a table survives, while clients use the table.

use placement::{Alteration, Cut, FurtherCopy, Schema};
use protocol::message::FillReport;

use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Makes a table survive so many failures. Where its copies are too few, exact replicas are
    /// added first, one after the other; `progress` is called from time to time with the state of
    /// their fills. Copies that are more than enough stay. If the caller stops waiting, replicas
    /// that are being made stay, and the number of failures is as before.
    ///
    /// # Errors
    /// - [`Error::Refused`]: there are too few servers in different failure domains, or the
    ///   coordinator refuses. The number of failures is as before.
    /// - [`Error::NoCoordinator`]: no coordinator is reachable, and nothing was done.
    /// - [`Error::Unknown`]: the coordinator stopped answering. The change may be made later.
    pub async fn set_failures_tolerated(
        &self,
        table: &str,
        failures: u8,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), Error> {
        // Each replica serves before the next one is made, so that this many are enough.
        for _ in 0..=failures {
            let configuration = self.refresh().await?;
            let domains = configuration.failure_domains();
            if domains <= usize::from(failures) {
                return Err(Error::Refused {
                    message: format!(
                        "to survive {failures} failures takes servers in {} failure domains, and \
                         there are {domains}: start more servers",
                        failures + 1
                    ),
                    retry: false,
                });
            }
            let placed = self.table(table).await?;
            let placed = placed.definition();
            if configuration.survived_by_complete_copies(placed) >= failures.into() {
                break;
            }
            self.add_copy(with_replica(&placed.schema), progress)
                .await?;
        }
        let alteration = Alteration::SetFailures { failures };
        self.alter_table(table, vec![alteration]).await
    }
}

/// Returns a schema with one more exact replica of the primary copy.
fn with_replica(schema: &Schema) -> Schema {
    let mut schema = schema.clone();
    let is_taken = |name: &String| {
        let indexes = schema.indexes.iter().map(|index| &index.name);
        let thin = schema.thin.iter().map(|index| &index.name);
        let further = schema.further.iter().map(|copy| &copy.name);
        indexes.chain(thin).chain(further).any(|it| it == name)
    };
    let names = (1..).map(|number| format!("{}_copy{number}", schema.name));
    let name = names.into_iter().find(|name| !is_taken(name));
    schema.further.push(FurtherCopy {
        name: name.expect("numbers do not end"),
        cut: Cut::Replica { of: None },
    });
    schema
}
