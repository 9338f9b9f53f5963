//! The page of supported features and differences: what it says of each statement is true.

use futures_util::TryStreamExt;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::Started;

const PAGE: &str = include_str!("../../../../../docs/reference/differences.md");

/// Returns the cells of the rows of the table in a section.
fn rows(section: &str) -> Vec<Vec<&'static str>> {
    let after = PAGE
        .split_once(section)
        .expect("the page has the section")
        .1;
    let until = after.find("\n## ").unwrap_or(after.len());
    let lines = after[..until].lines().filter(|line| line.starts_with('|'));
    let rows = lines.skip(2).map(|line| {
        let cells = line.trim_matches('|').split(" | ");
        cells.map(str::trim).collect()
    });
    rows.collect()
}

fn statement(cell: &str) -> &str {
    let statement = cell.strip_prefix('`').and_then(|it| it.strip_suffix('`'));
    statement.unwrap_or_else(|| panic!("{cell} is no statement"))
}

#[tokio::test]
async fn the_page_of_differences_is_true() {
    let store = Started::new().await;
    let address = store.sql();
    let url = format!("postgresql://replex@{address}/replex");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let supported = rows("## Supported");
    for row in &supported {
        let text = statement(row[1]);
        let failed = match text.starts_with("COPY") {
            true => match client.copy_out(text).await {
                Ok(data) => data.try_collect::<Vec<_>>().await.err(),
                Err(error) => Some(error),
            },
            false => client.simple_query(text).await.err(),
        };
        assert!(failed.is_none(), "{text}: {failed:?}");
    }
    client.simple_query("DROP TABLE u").await.unwrap();
    let setup = "CREATE TABLE t (id int PRIMARY KEY, a text);
        CREATE TABLE u (id int PRIMARY KEY, t int); INSERT INTO t VALUES (1, 'a')";
    client.simple_query(setup).await.unwrap();
    let refused = rows("## Not supported");
    for row in &refused {
        let text = statement(row[0]);
        let error = client.simple_query(text).await.expect_err(text);
        let code = error.code().map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), Some(row[1]), "{text}: {error:?}");
    }
    let left = client.simple_query("SELECT id FROM t").await.unwrap();
    let left = left
        .iter()
        .filter(|it| matches!(it, SimpleQueryMessage::Row(_)));
    assert_eq!(
        left.count(),
        1,
        "nothing that was refused has had an effect"
    );
    assert!(
        supported.len() > 20 && refused.len() > 30,
        "the page has both tables"
    );
}
