package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/vramscope/vramscope/trace"
)

// Magic is what a database begins with.
const Magic = "SQLite format 3\x00"

const (
	maxValue   = 16 << 20 // bytes of one value; what profilers write into one is a few kilobytes
	maxTables  = 10_000
	maxColumns = 2_000

	// A row takes at least a cell of the page and a record of one column in the file. Where there are more
	// rows than that, pages are referred to more than once.
	leastRow = 4

	// How long reading may take: far more than it does on a slow disk, and not for ever.
	patience    = 2 * time.Minute
	bytesPerSec = 1 << 20
)

// Database is a SQLite database, opened for reading only.
type Database struct {
	conn   *sqlite.Conn
	tables map[string]bool // by name in lower case
	size   int64
	stop   context.CancelFunc
	meter  meter
}

// OpenDatabase opens a database. The file must not change while it is open.
func OpenDatabase(path string) (*Database, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	conn, err := sqlite.OpenConn(uri(path), sqlite.OpenReadOnly, sqlite.OpenURI, sqlite.OpenPrivateCache)
	if err != nil {
		return nil, explain(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), patience+time.Duration(info.Size()/bytesPerSec)*time.Second)
	conn.SetInterrupt(ctx.Done())
	d := &Database{conn: conn, tables: map[string]bool{}, size: info.Size(), stop: stop}
	if err := d.prepare(); err != nil {
		d.Close()
		return nil, explain(err)
	}
	return d, nil
}

// uri says to take the file as one that nobody writes: no locks, no journals, nothing beside it is looked at.
func uri(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro&immutable=1"}
	return u.String()
}

// prepare forbids what is not needed, and lists the tables.
func (d *Database) prepare() error {
	for limit, n := range map[sqlite.Limit]int32{
		sqlite.LimitLength: maxValue, sqlite.LimitColumn: maxColumns, sqlite.LimitAttached: 0,
		sqlite.LimitTriggerDepth: 1, sqlite.LimitWorkerThreads: 0, sqlite.LimitExprDepth: 20,
	} {
		d.conn.Limit(limit, n)
	}
	if err := d.conn.SetDefensive(true); err != nil {
		return err
	}
	for _, p := range []string{"trusted_schema=OFF", "cell_size_check=ON", "query_only=ON", "temp_store=FILE", "cache_size=-8192"} {
		if err := d.query("PRAGMA "+p, func(*sqlite.Stmt) error { return nil }); err != nil {
			return err
		}
	}
	if err := d.conn.SetAuthorizer(sqlite.AuthorizeFunc(authorize)); err != nil {
		return err
	}
	return d.query("SELECT type, name, sql FROM sqlite_master", func(s *sqlite.Stmt) error {
		sql := strings.ToUpper(strings.Join(strings.Fields(s.ColumnText(2)), " "))
		if s.ColumnText(0) != "table" || !strings.HasPrefix(sql, "CREATE TABLE") {
			return nil
		}
		if len(d.tables) == maxTables {
			return errors.New("more tables than any profiler writes")
		}
		d.tables[strings.ToLower(s.ColumnText(1))] = true
		return nil
	})
}

// authorize lets statements read tables, and nothing else.
func authorize(a sqlite.Action) sqlite.AuthResult {
	switch a.Type() {
	case sqlite.OpSelect, sqlite.OpRead:
		return sqlite.AuthResultOK
	case sqlite.OpPragma:
		if a.Pragma() == "table_xinfo" {
			return sqlite.AuthResultOK
		}
	}
	return sqlite.AuthResultDeny
}

func (d *Database) query(sql string, each func(*sqlite.Stmt) error) error {
	stmt, _, err := d.conn.PrepareTransient(sql)
	if err != nil {
		return err
	}
	defer stmt.Finalize()
	for {
		row, err := stmt.Step()
		if err != nil || !row {
			return err
		}
		if err := each(stmt); err != nil {
			return err
		}
	}
}

// Close lets go of the file.
func (d *Database) Close() error {
	d.conn.SetInterrupt(nil)
	d.stop()
	return d.conn.Close()
}

// Has says whether there is a table of this name.
func (d *Database) Has(table string) bool { return d.tables[strings.ToLower(table)] }

// Rows is what fits in the file.
func (d *Database) Rows(table string) int64 {
	if !d.Has(table) {
		return 0
	}
	return d.size / leastRow
}

// Names lists the tables in alphabetical order, in lower case.
func (d *Database) Names() []string {
	var names []string
	for n := range d.tables {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Columns lists the columns of a table that are stored; computed ones are none of a profiler's.
func (d *Database) Columns(table string) ([]string, error) {
	if !d.Has(table) {
		return nil, nil
	}
	var columns []string
	err := d.query("PRAGMA table_xinfo("+quote(table)+")", func(s *sqlite.Stmt) error {
		if hidden := s.ColumnInt64(6); hidden == 0 {
			columns = append(columns, s.ColumnText(1))
		}
		return nil
	})
	return columns, explain(err)
}

// Scan reads a table.
func (d *Database) Scan(table string, columns []string, each func(Row) error) error {
	have, err := d.Columns(table)
	if err != nil || len(have) == 0 {
		return err
	}
	row := &stmtRow{at: make([]int, len(columns))}
	var list []string
	for i, c := range columns {
		row.at[i] = -1
		if j := slices.IndexFunc(have, func(h string) bool { return strings.EqualFold(h, c) }); j >= 0 {
			row.at[i] = len(list)
			list = append(list, quote(have[j]))
		}
	}
	if len(list) == 0 {
		list = append(list, quote(have[0])) // rows without any of the columns are rows nevertheless
	}
	n, most := int64(0), d.Rows(table)
	var stopped error
	err = d.query("SELECT "+strings.Join(list, ", ")+" FROM "+quote(table), func(s *sqlite.Stmt) error {
		if n++; n > most {
			stopped = trace.Corrupt(-1, "the database's table %s has more rows than fit in the file: its pages refer to each other in a circle; export it again", show(table))
			return stopped
		}
		d.meter.row()
		row.stmt = s
		stopped = each(row)
		return stopped
	})
	if stopped != nil {
		return stopped
	}
	return explain(err)
}

// quote makes a name of one, whatever is in it.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// show makes a name fit for a message.
func show(name string) string {
	if len(name) > 60 {
		name = name[:60] + "…"
	}
	return strings.ToValidUTF8(strings.Join(strings.Fields(name), " "), "?")
}

// stmtRow is the row that a statement is at.
type stmtRow struct {
	stmt *sqlite.Stmt
	at   []int // by column asked for: the statement's, -1 where the table has none
	text []byte
}

func (r *stmtRow) Int(column int) int64 {
	if c := r.at[column]; c >= 0 {
		return r.stmt.ColumnInt64(c)
	}
	return 0
}

func (r *stmtRow) Text(column int) string {
	if c := r.at[column]; c >= 0 {
		return r.stmt.ColumnText(c)
	}
	return ""
}

func (r *stmtRow) Bytes(column int) []byte {
	c := r.at[column]
	if c < 0 {
		return nil
	}
	n := r.stmt.ColumnLen(c)
	r.text = slices.Grow(r.text[:0], n)[:n]
	return r.text[:r.stmt.ColumnBytes(c, r.text)]
}

func (r *stmtRow) Null(column int) bool {
	c := r.at[column]
	return c < 0 || r.stmt.ColumnIsNull(c)
}

// explain puts the library's errors into words.
func explain(err error) error {
	if err == nil {
		return nil
	}
	switch code := sqlite.ErrCode(err).ToPrimary(); code {
	case sqlite.ResultInterrupt:
		return trace.Corrupt(-1, "the database takes far longer to read than its size explains: it is damaged, or made to; export it again")
	case sqlite.ResultNotADB, sqlite.ResultCorrupt:
		return trace.Corrupt(-1, "the database is damaged or cut off; copy it again, or export it again")
	case sqlite.ResultCantOpen, sqlite.ResultIOErr, sqlite.ResultPerm, sqlite.ResultNoMem, sqlite.ResultTooBig, sqlite.ResultAuth, sqlite.ResultError:
		return trace.Corrupt(-1, "the database cannot be read (%s); copy it again, or export it again", reason(code))
	default:
		if code != sqlite.ResultOK {
			return trace.Corrupt(-1, "the database cannot be read (%s)", code)
		}
	}
	return trace.Corrupt(-1, "the database cannot be read: %s", show(err.Error()))
}

// reason is a result code in words. The library's own text may quote the file's schema, or its path.
func reason(code sqlite.ResultCode) string {
	switch code {
	case sqlite.ResultIOErr:
		return "input/output error, or the file is cut off"
	case sqlite.ResultTooBig:
		return fmt.Sprintf("a value of more than %d MiB", maxValue>>20)
	case sqlite.ResultNoMem:
		return "it asks for more memory than there is"
	case sqlite.ResultError, sqlite.ResultAuth:
		return "its schema makes no sense"
	}
	return strings.ToLower(strings.TrimPrefix(code.String(), "SQLITE_"))
}

// IsDatabase says whether a file that begins so is a SQLite database.
func IsDatabase(head []byte) bool { return bytes.HasPrefix(head, []byte(Magic)) }
