package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// panel is a panel in GoAccess's JSON output.
type panel struct {
	Data []struct {
		Data   string `json:"data"`
		Method string `json:"method"`
		Hits   struct {
			Count int64 `json:"count"`
		} `json:"hits"`
		Bytes struct {
			Count int64 `json:"count"`
		} `json:"bytes"`
		Took  int64 `json:"cumts"` // in microseconds
		Items []struct {
			Data string `json:"data"`
			Hits struct {
				Count int64 `json:"count"`
			} `json:"hits"`
		} `json:"items"`
	} `json:"data"`
}

// TestGoAccess compares the totals with the real GoAccess, which parses the log independently:
// requests by status and by method, bytes, and the requests and time of each path.
func TestGoAccess(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 9))
	at := time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	for range 20_000 {
		at = at.Add(time.Duration(r.IntN(3)) * time.Second)
		// With the methods 300 of each, because GoAccess prints no more than 366.
		path := fmt.Sprintf("/p%d", min(int(r.ExpFloat64()*5), 19))
		if r.IntN(4) == 0 {
			path += fmt.Sprintf("?q=%d", r.IntN(2))
		}
		method := []string{"GET", "GET", "GET", "POST", "PUT", "HEAD", "DELETE"}[r.IntN(7)]
		size := strconv.Itoa(r.IntN(5000))
		status := []int{200, 200, 200, 206, 301, 304, 400, 403, 404, 500, 503}[r.IntN(11)]
		if status == 304 {
			size = "-"
		}
		fmt.Fprintf(&b, "10.0.%d.%d - - [%s] \"%s %s HTTP/1.1\" %d %s \"-\" \"Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0\" %d\n",
			r.IntN(3), r.IntN(200), at.Format("02/Jan/2006:15:04:05 -0700"), method, path, status, size, r.IntN(2_000_000))
	}
	log := filepath.Join(dir, "access.log")
	if err := os.WriteFile(log, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	root := testkitroot.New(t, testkitroot.Options{Servers: true, Binds: []testkitroot.Bind{{Source: dir, Target: "/srv"}}})
	out, code := root.Run("goaccess", "/srv/access.log", "--no-global-config", "--date-format=%d/%b/%Y", "--time-format=%H:%M:%S",
		`--log-format=%h %^[%d:%t %^] "%r" %s %b "%R" "%u" %D`, "--no-progress", "--output=/srv/out.json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "out.json"))
	if err != nil {
		t.Fatal(err)
	}
	var its struct {
		General struct {
			Total     int64 `json:"total_requests"`
			Valid     int64 `json:"valid_requests"`
			Bandwidth int64 `json:"bandwidth"`
		} `json:"general"`
		Requests panel `json:"requests"`
		NotFound panel `json:"not_found"`
		Static   panel `json:"static_requests"`
		Status   panel `json:"status_codes"`
	}
	if err := json.Unmarshal(text, &its); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"requests": its.General.Valid, "bytes": its.General.Bandwidth}
	for _, class := range its.Status.Data {
		for _, one := range class.Items {
			code, _, _ := strings.Cut(one.Data, " ")
			want["status "+code] += one.Hits.Count
		}
	}
	for _, p := range []panel{its.Requests, its.NotFound, its.Static} {
		for _, one := range p.Data {
			want["method "+one.Method] += one.Hits.Count
			want["url "+one.Method+" "+one.Data] += one.Hits.Count
			want["time "+one.Method+" "+one.Data] += one.Took
		}
	}

	res := readLogs(t, Options{By: [][]string{{"status"}, {"method"}, {"bytes"}, {"method", "url"}}}, log)
	got := map[string]int64{"requests": int64(res.Requests)}
	for i, name := range []string{"status ", "method ", "", "url "} {
		table := res.Tables[i]
		for g := range table.Len() {
			key, s := strings.Join(key(table.Text(g)), " "), table.At(g)
			if name == "" {
				n, _ := strconv.ParseInt(key, 10, 64) // - is zero
				got["bytes"] += n * int64(s.Count)
				continue
			}
			got[name+key] = int64(s.Count)
			if name == "url " {
				got["time "+key] = int64(s.Sum)
			}
		}
	}
	if its.General.Total != 20_000 || len(want) < 100 {
		t.Errorf("GoAccess read %d lines and tells %d figures", its.General.Total, len(want))
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d, GoAccess has %d", name, got[name], n)
		}
		delete(got, name)
	}
	for name, n := range got {
		t.Errorf("%s: %d, of which GoAccess has nothing", name, n)
	}
}
