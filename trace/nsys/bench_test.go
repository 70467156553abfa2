package nsys_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/vramscope/vramscope/trace/source"
	"github.com/vramscope/vramscope/trace/tables/tablestest"
)

const benchRows = 50_000

// churn makes rows of allocations and frees that follow each other.
func churn(n int) [][]any {
	rows := make([][]any, n)
	for i := range rows {
		rows[i] = []any{1000 * i, 0, int64(0x7f0000000000) + int64(i/2%1000)<<21, 1 << 20, 2, i % 2}
	}
	return rows
}

func BenchmarkDatabase(b *testing.B) {
	path := tablestest.Database(b, export{version: "3.20.3", rows: churn(benchRows)}.tables())
	for b.Loop() {
		if _, err := source.Open(path, source.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func BenchmarkLines(b *testing.B) {
	var text bytes.Buffer
	for i, r := range churn(benchRows) {
		fmt.Fprintf(&text, `{"Type":48,"TraceProcessEvent":{"startNs":"%d","endNs":"%d","correlationId":%d,"eventClass":0,"name":"1","returnValue32":0,"globalTid":"281486100005527"}}`+"\n", r[0], r[0], i+1)
		fmt.Fprintf(&text, `{"Type":117,"CudaMemoryUsageEvent":{"startNs":"%d","globalPid":"281486100004864","deviceId":0,"address":"%d","bytes":"%d","memKind":2,"type":"%s","correlationId":%d}}`+"\n",
			r[0], r[2], r[3], []string{"allocation", "deallocation"}[i%2], i+1)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := source.Read(bytes.NewReader(text.Bytes()), 0, source.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
