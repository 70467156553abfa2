// Package tablestest makes databases in the shapes that profilers write, for tests.
package tablestest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Table is a table to make. Columns are as in CREATE TABLE; rows have a value for each, nil for null.
type Table struct {
	Name    string
	Columns []string
	Rows    [][]any
}

// Database makes a database of tables, and then runs statements in it. It gives the path.
func Database(t testing.TB, list []Table, statements ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "made.sqlite")
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	end := sqlitex.Transaction(conn)
	for _, x := range list {
		run(t, conn, fmt.Sprintf(`CREATE TABLE "%s" (%s)`, x.Name, strings.Join(x.Columns, ", ")))
		if len(x.Rows) == 0 {
			continue
		}
		insert := fmt.Sprintf(`INSERT INTO "%s" VALUES (%s)`, x.Name, strings.TrimSuffix(strings.Repeat("?,", len(x.Columns)), ","))
		for _, row := range x.Rows {
			if err := sqlitex.Execute(conn, insert, &sqlitex.ExecOptions{Args: row}); err != nil {
				t.Fatalf("%s: %v", x.Name, err)
			}
		}
	}
	end(&err)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		run(t, conn, s)
	}
	return path
}

func run(t testing.TB, conn *sqlite.Conn, sql string) {
	t.Helper()
	if err := sqlitex.ExecuteTransient(conn, sql, nil); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
