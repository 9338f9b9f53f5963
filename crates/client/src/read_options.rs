//! The options of every read: which rows and columns, how many, in which order, how fresh.

macro_rules! common_options {
    ($type:ident) => {
        impl $type {
            /// Restricts the read to rows for which this holds. Servers evaluate it where the rows
            /// are.
            pub fn filter(mut self, filter: $crate::Expression) -> Self {
                self.wanted.plan.filter = Some(filter);
                self
            }

            /// Restricts the read to these columns, by position, in this order.
            pub fn projection(mut self, columns: impl Into<Vec<u16>>) -> Self {
                self.wanted.plan.projection = Some(columns.into());
                self
            }

            /// Limits the number of rows.
            pub fn limit(mut self, rows: u64) -> Self {
                self.wanted.plan.limit = Some(rows);
                self
            }

            /// Reads in the descending order of the index.
            pub fn descending(mut self) -> Self {
                self.wanted.plan.order = session::gather::RowOrder::Descending;
                self
            }

            /// Sets how fresh the rows must be. With
            /// [`Consistency::Stale`](crate::Consistency::Stale) the read returns committed rows at
            /// once, and may miss operations in progress.
            pub fn consistency(mut self, consistency: $crate::Consistency) -> Self {
                self.wanted.plan.consistency = consistency;
                self
            }

            /// Reads the rows of a snapshot instead of the present ones.
            pub fn at(mut self, snapshot: &$crate::Snapshot) -> Self {
                self.wanted.plan.snapshot = Some(snapshot.id());
                self.wanted.snapshot = Some(snapshot.clone());
                self
            }

            /// Sets the time limit for each page of rows.
            pub fn deadline(mut self, patience: std::time::Duration) -> Self {
                self.wanted.patience = Some(patience);
                self
            }

            /// Starts the read, and returns its rows one by one.
            ///
            /// # Errors
            /// [`Error::UnknownColumn`](crate::Error::UnknownColumn).
            pub fn rows(self) -> Result<$crate::Rows, $crate::Error> {
                $crate::Rows::begin(self.wanted)
            }

            /// Returns the number of rows. The servers count them.
            ///
            /// # Errors
            /// As [`Rows::next`](crate::Rows::next).
            pub async fn count(mut self) -> Result<u64, $crate::Error> {
                self.wanted.plan.count_only = true;
                self.rows()?.count().await
            }
        }
    };
}

pub(crate) use common_options;
