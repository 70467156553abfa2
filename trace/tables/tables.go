// Package tables reads the tables of profilers' exports, by the names of tables and columns: SQLite databases
// and folders of Parquet files. Both are strangers' files. A database is opened so that nothing in it can be
// run: no views, no virtual tables, no expressions of its schema.
package tables

// Set is the tables of one export.
type Set interface {
	// Has says whether there is a table of this name.
	Has(table string) bool
	// Columns lists the columns of a table, none if it is not there.
	Columns(table string) ([]string, error)
	// Scan reads a table in the order of the file and gives each row to the function, until that returns an
	// error. Columns that the table lacks are null in every row. A table that is not there has no rows.
	Scan(table string, columns []string, each func(Row) error) error
	// Plan says which tables will be read, so that it can be told how far reading has come.
	Plan(tables ...string)
	// Rows is an upper bound of the number of rows of a table, for what is reserved beforehand.
	Rows(table string) int64
}

// Row is a row of a scan; columns are counted as they were asked for. It is good until the function that got
// it returns.
type Row interface {
	// Int is the value of a column of integers, 0 where it is null.
	Int(column int) int64
	// Text is the value of a column of text, "" where it is null.
	Text(column int) string
	// Bytes is the value of a column of text or bytes, good as long as the row.
	Bytes(column int) []byte
	Null(column int) bool
}
