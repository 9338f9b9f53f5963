//! The reference page names only relations and functions that exist.

mod shop;

use shop::{answer, shop};

#[test]
fn the_reference_names_what_exists() {
    let catalogue = shop();
    let path = format!(
        "{}/../../docs/reference/catalogue.md",
        env!("CARGO_MANIFEST_DIR")
    );
    let page = std::fs::read_to_string(path).unwrap();
    let (relations, functions) = page.split_once("\n## Functions\n").unwrap();
    let (_, relations) = relations.split_once("These relations have rows:").unwrap();
    let (relations, _) = relations
        .split_once("Differences from PostgreSQL:")
        .unwrap();
    let names = |text: &str| -> Vec<String> {
        text.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    let relations = names(relations);
    assert!(relations.len() > 50, "{relations:?}");
    for name in relations.iter().filter(|it| *it != "information_schema") {
        let schema = match name.starts_with("pg_") {
            true => "pg_catalog",
            false => "information_schema",
        };
        let found = answer(
            &catalogue,
            &format!("SELECT count(*) > 0 FROM {schema}.{name}"),
        );
        assert_eq!(found, "?column?\nt", "{name}");
    }
    let functions = names(functions);
    assert!(functions.len() > 100, "{functions:?}");
    let is_unknown = |name: &String| {
        // It exists if PostgreSQL lists it, or if it is part of the grammar.
        let listed = format!("SELECT count(*) > 0 FROM pg_proc WHERE proname = '{name}'");
        let grammar = [
            "coalesce",
            "greatest",
            "least",
            "nullif",
            "pg_typeof",
            "position",
            "trim",
        ];
        let is_listed = answer(&catalogue, &listed) == "?column?\nt";
        !is_listed && !grammar.contains(&&**name)
    };
    let unknown: Vec<&String> = functions.iter().filter(|it| is_unknown(it)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
