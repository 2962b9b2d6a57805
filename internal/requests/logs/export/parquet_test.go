package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// logOf writes a log, and returns its path.
func logOf(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tableOfLogs returns the table of logs with detected formats.
func tableOfLogs(t *testing.T, paths ...string) (*Table, error) {
	t.Helper()
	found, err := source.Find(host.Live(), paths)
	if err != nil {
		t.Fatal(err)
	}
	set := source.NewSet(found)
	var formats []*logformat.Format
	for i := range set.Logs {
		head, err := set.Head(i, logformat.HeadSize)
		if err != nil {
			t.Fatal(err)
		}
		f, err := logformat.Detect(head, nil)
		if err != nil {
			return nil, err
		}
		formats = append(formats, f)
	}
	return New(set, formats)
}

func tableError(t *testing.T, path string) error { _, err := tableOfLogs(t, path); return err }

// exported returns the Parquet file of logs.
func exported(t *testing.T, o logs.Options, paths ...string) ([]byte, *Summary) {
	t.Helper()
	table, err := tableOfLogs(t, paths...)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	res, err := table.Write(t.Context(), &out, o)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), table.Summary("out", res)
}

// rowsOf reads a file back: the names of the columns, and the rows as text.
func rowsOf(t *testing.T, file []byte) (names []string, rows []string) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range f.Schema().Fields() {
		names = append(names, column.Name())
	}
	r := parquet.NewGenericReader[any](f)
	defer r.Close()
	row := make([]parquet.Row, 1)
	for {
		n, err := r.ReadRows(row)
		if n == 1 {
			var texts []string
			for _, v := range row[0] {
				texts = append(texts, v.String())
			}
			rows = append(rows, strings.Join(texts, "|"))
		}
		if errors.Is(err, io.EOF) {
			return names, rows
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestParquet: the values of a row are those of its line, with exact types; what a line lacks is
// null.
func TestParquet(t *testing.T) {
	for _, c := range []struct {
		name, log, columns string
		rows               []string
	}{
		{"combined", "192.0.2.7 - - [18/Mar/2026:04:02:25 +0100] \"GET /a?x=1 HTTP/1.1\" 200 34 \"-\" \"curl \\xff \\\"q\\\"\"\n" +
			"192.0.2.8 - eve [18/Mar/2026:04:02:26 +0100] \"\\x16\\x03\" 400 - \"http://a/\" \"\xff\"\n",
			"log line time status method url path query protocol client ident user bytes referer user_agent",
			[]string{`LOG|1|1773802945000000|200|GET|/a?x=1|/a|x=1|HTTP/1.1|192.0.2.7|<null>|<null>|34|<null>|curl \xff "q"`,
				"LOG|2|1773802946000000|400|<null>|\x16\x03|\x16\x03|<null>|<null>|192.0.2.8|<null>|eve|<null>|http://a/|" + `\xff`}},
		{"JSON", `{"time":"2026-03-18T04:02:25.123456Z","method":"GET","uri":"/a","status":200,"latency_human":"1.2ms","extra":"x"}` + "\n" +
			`{"time":"2026-03-18T04:02:26Z","method":"GET","uri":"/b","status":404,"latency_human":"900µs","extra":""}` + "\n",
			"log line time status method url path query extra latency_human",
			[]string{"LOG|1|1773806545123456|200|GET|/a|/a|<null>|x|1.2ms", "LOG|2|1773806546000000|404|GET|/b|/b|<null>|<null>|900µs"}},
		{"HAProxy", "Mar 18 04:02:25 lb haproxy[1]: 192.0.2.7:1 [18/Mar/2026:04:02:25.123] f b/s 0/0/-1/-1/+5 503 +213 - - SC-- 1/1/0/0/0 0/0 \"GET / HTTP/1.1\"\n",
			"log line time duration_us status method url path query protocol client client_port frontend backend server wait_request_us wait_queue_us wait_connect_us wait_response_us bytes cookie_in cookie_out termination connections frontend_connections backend_connections server_connections retries server_queue backend_queue captured_in captured_out captured",
			[]string{"LOG|1|1773806545123000|5000|503|GET|/|/|<null>|HTTP/1.1|192.0.2.7|1|f|b|s|0|0|<null>|<null>|213|<null>|<null>|SC--|1|1|0|0|0|0|0|<null>|<null>|<null>"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := logOf(t, "log", c.log)
			file, s := exported(t, logs.Options{}, path)
			names, rows := rowsOf(t, file)
			for i := range rows {
				rows[i] = strings.Replace(rows[i], path, "LOG", 1)
			}
			if got := strings.Join(names, " "); got != c.columns {
				t.Errorf("columns %s, want %s", got, c.columns)
			}
			if !slices.Equal(rows, c.rows) {
				t.Errorf("rows\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(c.rows, "\n"))
			}
			if int(s.Requests) != len(rows) || len(s.Columns) != len(names) {
				t.Errorf("summary: %+v", s)
			}
		})
	}
}

// TestSeveralLogs: lines are numbered by log, also after lines that are not read, and logs with
// different fields have the columns of both.
func TestSeveralLogs(t *testing.T) {
	combined := "192.0.2.7 - - [18/Mar/2026:04:02:25 +0100] \"GET /%d HTTP/1.1\" 200 34 \"-\" \"curl\"\n"
	var long strings.Builder
	for i := range 5000 { // several blocks
		fmt.Fprintf(&long, combined, i)
		if i == 10 {
			long.WriteString("not a request\n" + strings.Repeat("x", 2*source.Size) + "\n")
		}
	}
	a := logOf(t, "a.log", long.String())
	b := logOf(t, "b.log", "192.0.2.7 - - [18/Mar/2026:04:02:25 +0100] \"GET /b HTTP/1.1\" 200 34\n")
	file, s := exported(t, logs.Options{Workers: 8}, a, b)
	_, rows := rowsOf(t, file)
	if len(rows) != 5001 || s.Unread.Lines != 2 {
		t.Fatalf("%d rows, %d lines not read", len(rows), s.Unread.Lines)
	}
	for i, row := range rows[:5000] {
		line := i + 1
		if i > 10 {
			line += 2
		}
		if want := fmt.Sprintf("%s|%d|", a, line); !strings.HasPrefix(row, want) || !strings.Contains(row, fmt.Sprintf("|/%d|", i)) {
			t.Fatalf("row %d: %s, want %s", i, row, want)
		}
	}
	if !strings.HasPrefix(rows[5000], b+"|1|") || !strings.HasSuffix(rows[5000], "|<null>|<null>") {
		t.Errorf("last row: %s", rows[5000])
	}
}

// TestConflict: a column that has another type in another log is refused, with both logs.
func TestConflict(t *testing.T) {
	a := logOf(t, "a.log", `{"time":"2026-03-18T04:02:25Z","method":"GET","uri":"/a","status":200,"bytes":12}`+"\n")
	b := logOf(t, "b.log", "Mar 18 04:02:25 lb haproxy[1]: 192.0.2.7:1 [18/Mar/2026:04:02:25.123] f b/s 0/0/0/1/1 200 34 - - ---- 1/1/0/0/0 0/0 \"GET / HTTP/1.1\"\n")
	if _, err := tableOfLogs(t, a, b); err == nil || !strings.Contains(err.Error(), "time is a time without a zone, and a time in "+a) {
		t.Errorf("%v", err)
	}
}

// TestFailedWrite: an error of the writer ends the export.
func TestFailedWrite(t *testing.T) {
	var text strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&text, "192.0.2.7 - - [18/Mar/2026:04:02:25 +0100] \"GET /%d HTTP/1.1\" 200 34 \"-\" \"curl\"\n", i)
	}
	table, err := tableOfLogs(t, logOf(t, "a.log", text.String()))
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left")
	if res, err := table.Write(t.Context(), failing{full}, logs.Options{}); res != nil || !errors.Is(err, full) {
		t.Errorf("%v, %v", res, err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// python returns the Python that has a package, which make test-real installs.
func python(t *testing.T, name string) string {
	t.Helper()
	testkitroot.Real(t, name)
	path, err := exec.Command(filepath.Join(testkitroot.Module(t), "test/pypi"), name, "--print").Output()
	if err != nil {
		t.Fatal(err)
	}
	program := strings.TrimSpace(string(path))
	if _, err := os.Stat(program); err != nil {
		testkitroot.Missing(t, "%s is not in the cache; run: test/pypi %s", name, name)
	}
	return program
}

// TestDuckDB: DuckDB reads the files of all formats, and finds the same requests.
func TestDuckDB(t *testing.T) {
	program := python(t, "duckdb")
	dir := t.TempDir()
	want := map[string]map[string]any{}
	real, _ := filepath.Glob("../../../logformat/testdata/real/*.log")
	products, _ := filepath.Glob("../testdata/products/*.log")
	for _, log := range append(real, products...) {
		if ambiguous := (*logformat.AmbiguousError)(nil); errors.As(tableError(t, log), &ambiguous) {
			continue // without --format
		}
		file, s := exported(t, logs.Options{}, log)
		name := filepath.Join(dir, filepath.Base(log)+".parquet")
		if err := os.WriteFile(name, file, 0o600); err != nil {
			t.Fatal(err)
		}
		want[name] = map[string]any{"rows": float64(s.Requests), "first": s.First.UnixMicro(), "columns": len(s.Columns)}
	}
	out, err := exec.Command(program, "-c", `
import duckdb, glob, json, sys
found = {}
for name in glob.glob(sys.argv[1] + "/*.parquet"):
    columns = [(c[0], c[1]) for c in duckdb.sql(f"DESCRIBE SELECT * FROM '{name}'").fetchall()]
    rows = duckdb.sql(f"SELECT count(*) FROM '{name}'").fetchall()[0][0]
    first = duckdb.sql(f"SELECT min(epoch_us(time)) FROM '{name}'").fetchall()[0][0] if "time" in dict(columns) else None
    duckdb.sql(f"SELECT * FROM '{name}'").fetchall()
    found[name] = {"rows": rows, "first": first, "columns": columns}
print(json.dumps(found))
`, dir).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, err.(*exec.ExitError).Stderr)
	}
	var found map[string]struct {
		Rows    float64     `json:"rows"`
		First   *int64      `json:"first"`
		Columns [][2]string `json:"columns"`
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	for name, w := range want {
		got := found[name]
		if got.Rows != w["rows"] || got.First != nil && *got.First != w["first"] || len(got.Columns) != w["columns"] {
			t.Errorf("%s: DuckDB finds %v rows from %v in %d columns, want %v", filepath.Base(name), got.Rows, got.First, len(got.Columns), w)
		}
		for _, c := range got.Columns {
			if c[0] == "time" && !strings.HasPrefix(c[1], "TIMESTAMP") || (c[0] == "status" || c[0] == "duration_us" || c[0] == "bytes") && c[1] != "BIGINT" {
				t.Errorf("%s: %v", filepath.Base(name), c)
			}
		}
	}
	if len(found) != len(want) || len(want) < 50 {
		t.Errorf("%d files, want %d", len(found), len(want))
	}
}

// TestRecipes: DuckDB and Spark run the recipes of the manual.
func TestRecipes(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/logs-export.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, _ := exported(t, logs.Options{}, "../../../../examples/logs/puppet.log")
	if err := os.WriteFile(filepath.Join(dir, "requests.parquet"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, program, recipe string) string {
		c := exec.Command(program, "-c", recipe)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", recipe, err, out)
		}
		return string(out)
	}
	for _, language := range []struct{ name, program, want string }{{"sql", "duckdb", ""}, {"python", "pyspark", "|   503|       5|"}} {
		t.Run(language.program, func(t *testing.T) {
			if language.program == "pyspark" {
				testkitroot.Nightly(t, "Spark needs a minute")
			}
			program := python(t, language.program)
			recipes := regexp.MustCompile("(?s)```"+language.name+"\n(.*?)```").FindAllStringSubmatch(string(page), -1)
			if len(recipes) == 0 {
				t.Fatal("the page has none")
			}
			for _, recipe := range recipes {
				text := recipe[1]
				if language.name == "sql" {
					text = fmt.Sprintf("import duckdb; rows = duckdb.sql(%q).fetchall(); print(len(rows)); assert rows", text)
				}
				if out := run(t, program, text); !strings.Contains(out, language.want) {
					t.Errorf("%s\n%s", text, out)
				}
			}
		})
	}
}
