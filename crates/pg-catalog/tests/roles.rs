//! Roles, memberships, owners and privileges.

#[expect(dead_code, reason = "its tables are for other tests")]
mod shop;

use pg_catalog::{
    GrantDescription, ObjectRights, RoleDescription, SchemaCatalogue, SchemaDescription,
    TableDescription,
};
use shop::answer;

fn role(oid: u32, name: &str, memberships: &[u32]) -> RoleDescription {
    RoleDescription {
        oid,
        name: name.into(),
        can_login: name != "readers",
        is_superuser: oid == 10,
        memberships: memberships.into(),
        reach: memberships.iter().copied().chain([oid]).collect(),
    }
}

fn grant(grantee: u32, letters: &str) -> GrantDescription {
    GrantDescription {
        grantee,
        letters: letters.into(),
    }
}

// tidy: long — a table of statements and their answers
#[test]
fn roles_and_what_they_may_do() {
    let table = |oid, name: &str, rights| TableDescription {
        oid,
        name: name.into(),
        rights,
        ..TableDescription::default()
    };
    let rights = ObjectRights {
        owner: Some(16_385),
        granted: vec![grant(0, "r"), grant(16_386, "aw")],
    };
    let catalogue = SchemaCatalogue::new(SchemaDescription {
        tables: vec![
            table(16_400, "closed", ObjectRights::default()),
            table(16_401, "open", rights),
        ],
        roles: vec![
            role(10, "postgres", &[]),
            role(16_384, "ann", &[16_386]),
            role(16_385, "Bob", &[]),
            role(16_386, "readers", &[]),
        ],
        granted: vec![grant(16_384, "C")],
        ..SchemaDescription::default()
    });
    for (statement, expected) in [
        (
            "SELECT relname, pg_get_userbyid(relowner) AS o, relacl FROM pg_class WHERE relname IN \
             ('closed', 'open') ORDER BY 1",
            "relname|o|relacl\nclosed|postgres|∅\n\
             open|Bob|{\"\\\"Bob\\\"=arwdDxt/\\\"Bob\\\"\",\"=r/\\\"Bob\\\"\",\"readers=aw/\\\"Bob\\\"\"}",
        ),
        (
            "SELECT has_table_privilege('ann', 'open', 'SELECT') AS a, has_table_privilege('ann', \
             'open', 'INSERT') AS b, has_table_privilege('ann', 'open', 'DELETE, UPDATE') AS c, \
             has_table_privilege('ann', 'open', 'DELETE') AS d",
            "a|b|c|d\nt|t|t|f",
        ),
        (
            "SELECT has_table_privilege('ann', 'closed', 'SELECT') AS a, \
             has_table_privilege('closed', 'SELECT') AS b, has_table_privilege('Bob', 16401, \
             'TRUNCATE') AS c, has_table_privilege('Bob', 'open', 'SELECT WITH GRANT OPTION') AS d",
            "a|b|c|d\nf|t|t|t",
        ),
        (
            "SELECT has_schema_privilege('ann', 'public', 'CREATE') AS a, \
             has_schema_privilege('Bob', 'public', 'CREATE') AS b, has_schema_privilege('Bob', \
             'public', 'USAGE') AS c, pg_has_role('ann', 'readers', 'MEMBER') AS d, \
             pg_has_role('Bob', 'readers', 'MEMBER') AS e",
            "a|b|c|d|e\nt|f|t|t|f",
        ),
        (
            "SELECT has_table_privilege('ann', 'open', 'READ')",
            "ERROR 22023: unrecognized privilege type: \"READ\"",
        ),
        (
            "SELECT has_table_privilege('missing', 'open', 'SELECT')",
            "ERROR 42704: role \"missing\" does not exist",
        ),
        (
            "SELECT r.rolname, r.rolsuper, r.rolcanlogin, ARRAY(SELECT b.rolname FROM \
             pg_catalog.pg_auth_members m JOIN pg_catalog.pg_roles b ON (m.roleid = b.oid) WHERE \
             m.member = r.oid) AS memberof FROM pg_catalog.pg_roles r WHERE r.rolname !~ '^pg_' \
             ORDER BY 1",
            "rolname|rolsuper|rolcanlogin|memberof\nBob|f|t|{}\nann|f|t|{readers}\n\
             postgres|t|t|{}\nreaders|f|f|{}",
        ),
        (
            "SELECT usename FROM pg_user ORDER BY 1",
            "usename\nBob\nann\npostgres",
        ),
        (
            "SELECT grantee, privilege_type, is_grantable FROM information_schema.table_privileges \
             WHERE table_name = 'open' AND grantee <> '\"Bob\"' ORDER BY 1, 2",
            "grantee|privilege_type|is_grantable\nPUBLIC|SELECT|NO\nreaders|INSERT|NO\n\
             readers|UPDATE|NO",
        ),
    ] {
        assert_eq!(answer(&catalogue, statement), expected, "{statement}");
    }
}
