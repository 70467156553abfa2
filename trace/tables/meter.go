package tables

import "zombiezen.com/go/sqlite"

// meter tells how far reading a set has come: by the rows of the tables that will be read, as a share of the bytes.
type meter struct {
	tell       func(read, total int64) // nil if nobody wants to know
	size       int64                   // bytes of the set
	rows, done float64
}

// tellEvery is after how many rows it is told.
const tellEvery = 1 << 13

// row notes that a row has been read.
func (m *meter) row() {
	if m.tell == nil {
		return
	}
	if m.done++; int64(m.done)%tellEvery == 0 && m.rows > 0 {
		m.tell(int64(min(1, m.done/m.rows)*float64(m.size)), m.size)
	}
}

// Watch has a function told now and then how many bytes of a database have been read, out of how many.
func (d *Database) Watch(tell func(read, total int64)) { d.meter.tell, d.meter.size = tell, d.size }

// Plan adds up the rows of tables by their numbers, which is quick, and right where none were deleted.
func (d *Database) Plan(tables ...string) {
	if d.meter.tell == nil {
		return
	}
	for _, t := range tables {
		if !d.Has(t) {
			continue
		}
		n := int64(0)
		// A table that has no numbers, or is damaged, counts as none: reading it will tell.
		_ = d.query("SELECT rowid FROM "+quote(t)+" ORDER BY rowid DESC LIMIT 1", func(s *sqlite.Stmt) error {
			n = s.ColumnInt64(0)
			return nil
		})
		d.meter.rows += float64(min(max(n, 0), d.Rows(t)))
	}
}

// Watch has a function told now and then how many bytes of the tables have been read, out of how many.
func (f *Folder) Watch(tell func(read, total int64)) { f.meter.tell = tell }

// Plan adds up the rows of tables as their files have them.
func (f *Folder) Plan(tables ...string) {
	if f.meter.tell == nil {
		return
	}
	for _, t := range tables {
		f.meter.rows += float64(f.Rows(t))
	}
	f.meter.size = f.Size()
}
