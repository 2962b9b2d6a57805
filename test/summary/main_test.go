package main

import (
	"strings"
	"testing"
)

// The events are those of go 1.26 for a package with a test of each kind, in short.
const events = `{"Action":"start","Package":"x/y"}
{"Action":"run","Package":"x/y","Test":"TestGood"}
{"Action":"output","Package":"x/y","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"x/y","Test":"TestGood","Output":"    y_test.go:1: not shown\n"}
{"Action":"pass","Package":"x/y","Test":"TestGood","Elapsed":7}
{"Action":"output","Package":"x/y","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"x/y","Test":"TestBad","Output":"    y_test.go:2: wrong\n"}
{"Action":"output","Package":"x/y","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"x/y","Test":"TestBad","Elapsed":0}
{"Action":"output","Package":"x/y","Test":"TestRoot","Output":"    y_test.go:3: make test-real runs it: starts a server\n"}
{"Action":"skip","Package":"x/y","Test":"TestRoot","Elapsed":0}
{"Action":"output","Package":"x/y","Test":"TestSlow","Output":"    y_test.go:4: make test-nightly runs it: takes an hour\n"}
{"Action":"skip","Package":"x/y","Test":"TestSlow","Elapsed":0}
{"Action":"output","Package":"x/y","Test":"TestSilent","Output":"    y_test.go:5: no /dev/shm\n"}
{"Action":"skip","Package":"x/y","Test":"TestSilent","Elapsed":0}
{"Action":"output","Package":"x/y","Output":"FAIL\n"}
{"Action":"output","Package":"x/y","Output":"FAIL\tx/y\t8.000s\n"}
{"Action":"fail","Package":"x/y","Elapsed":8}
go: a line that is not an event
{"ImportPath":"x/z","Action":"build-output","Output":"z.go:1: does not compile\n"}
{"ImportPath":"x/z","Action":"build-fail"}
{"Action":"output","Package":"x/dead","Test":"TestPanics","Output":"panic: dead\n"}
{"Action":"output","Package":"x/dead","Output":"FAIL\tx/dead\t0.001s\n"}
{"Action":"fail","Package":"x/dead","Elapsed":0.001}
`

const printed = `    y_test.go:2: wrong
--- FAIL: TestBad (0.00s)
FAIL
FAIL	x/y	8.000s
go: a line that is not an event
z.go:1: does not compile
FAIL	x/dead	0.001s
panic: dead
left out: 1 tests that make test-real runs, 1 of make test-nightly
skipped: x/y TestSilent: y_test.go:5: no /dev/shm
over the budget of seconds: x/y TestGood: 7.0 s of 3 s, with 1.0 tasks a processor
`

func TestSummary(t *testing.T) {
	var out strings.Builder
	s := &summary{out: &out, load: func() float64 { return 1 }, said: map[string]*strings.Builder{}}
	if err := s.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	s.close()
	if out.String() != printed {
		t.Errorf("printed\n%swant\n%s", out.String(), printed)
	}
}
