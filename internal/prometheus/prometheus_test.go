package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// Results other than one number are errors that explain the result.
func TestQuery(t *testing.T) {
	for answer, want := range map[string]string{
		`{"status":"success","data":{"resultType":"scalar","result":[1795315658.9,"1.5"]}}`:                        "1.5 true",
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1795315658.9,"-2"]}]}}`: "-2 true",
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"NaN"]}]}}`:           "NaN false",
		`{"status":"success","data":{"resultType":"vector","result":[]}}`:                                          "0 false",
		`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"2"]},{"value":[1,"3"]}]}}`:       "with 2 series; select one",
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2"]]}]}}`:          "with a matrix; the result must be one number",
		`{"status":"success","data":{}}`:                                  "without a type",
		`{"status":"success","data":{"resultType":"scalar","result":{}}}`: "cannot unmarshal",
		`{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": 1:5: parse error: unclosed parenthesis"}`: "parse error: unclosed",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/query" || r.URL.Query().Get("query") != "up{a=\"b c\"}" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, answer)
		}))
		o, err := Open(s.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		v, known, err := o.Query(t.Context(), `up{a="b c"}`)
		s.Close()
		got := fmt.Sprint(v, known)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
	}
}

// Range returns the finite values of one series; other results are errors that explain the result.
func TestRange(t *testing.T) {
	from := time.Unix(1795315600, 0)
	for answer, want := range map[string]string{
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1795315600,"1.5"],[1795315660.5,"NaN"],[1795315720,"2"]]}]}}`: "0s 1.5, 2m0s 2, <nil>",
		`{"status":"success","data":{"resultType":"matrix","result":[]}}`:                                                                                  "has no values of up in this time",
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"2"]]},{"values":[]}]}}`:                                                "with 2 series; select one",
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"x"]]}]}}`:                                                              "the result must be numbers",
		`{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`:                                                                             "invalid answer",
		`{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution of 11,000 points"}`:                                                 "exceeded maximum resolution",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			if r.URL.Path != "/api/v1/query_range" || q.Get("query") != "up" || q.Get("start") != "1795315600" || q.Get("end") != "1795315720" || q.Get("step") != "60" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, answer)
		}))
		o, err := Open(s.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		all, err := o.Range(t.Context(), "up", from, from.Add(2*time.Minute), time.Minute)
		s.Close()
		got := ""
		for _, v := range all {
			got += fmt.Sprintf("%v %v, ", v.Time.Sub(from), v.Value)
		}
		if got += fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	token := ""
	answer := func(code int, header map[string]string) *Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token = r.Header.Get("Authorization")
			for k, v := range header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(code)
		}))
		t.Cleanup(s.Close)
		o, err := Open(s.URL, "secret\n")
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, tt := range []struct {
		code   int
		header map[string]string
		want   string
	}{{401, nil, "rejects this token (401 Unauthorized)"}, {403, nil, "--prometheus-token"}, {404, nil, "has no /api/v1/query (404 Not Found): the server is not Prometheus"}, {503, nil, "is not ready (503 Service Unavailable); wait"}, {502, nil, "see its log"}, {418, nil, "use the address of a Prometheus"}, {302, map[string]string{"Location": "http://example.com/"}, "redirects to http://example.com/; use the final address"}} {
		if _, _, err := answer(tt.code, tt.header).Query(t.Context(), "up"); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v, want %q", tt.code, err, tt.want)
		}
		if token != "Bearer secret" {
			t.Errorf("the token was %q", token)
		}
	}
	ended, stop := context.WithCancel(context.Background())
	stop()
	if _, _, err := answer(200, nil).Query(ended, "up"); err == nil {
		t.Error("a canceled context is an error")
	}
}

// Connection errors are explained, and returned within the timeout.
func TestConnectionErrors(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections but never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone := root.Unheard(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	strange := httptest.NewUnstartedServer(http.NotFoundHandler())
	strange.Config.ErrorLog = log.New(io.Discard, "", 0)
	strange.StartTLS()
	defer strange.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "{")
	}))
	defer cut.Close()
	for address, want := range map[string]string{
		"http://" + silent.Addr().String():          "no answer within 50ms; the server is busy",
		"http://" + gone:                            "connection to " + gone + " refused; start Prometheus, or a tunnel",
		"https://" + plain.Listener.Addr().String(): "does not use TLS; use http://",
		strange.URL: "is not trusted (",
		cut.URL:     "is truncated: unexpected EOF",
	} {
		s, err := Open(address, "")
		if err != nil {
			t.Fatal(err)
		}
		patience := time.Minute
		if strings.HasSuffix(address, silent.Addr().String()) {
			patience = 50 * time.Millisecond
		}
		ctx, stop := WithTimeout(t.Context(), patience)
		_, _, err = s.Query(ctx, "up(")
		stop()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Get ") || strings.Contains(err.Error(), "%28") {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	// Ctrl-C is not a failure of the server.
	s, err := Open("http://"+silent.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := s.Query(ctx, "up"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// A name that cannot be resolved.
	if err := s.connectionError(t.Context(), &url.Error{Op: "Get", URL: "x", Err: &net.DNSError{Err: "no such host", Name: "prometheus.example", IsNotFound: true}}); !strings.Contains(err.Error(), "cannot resolve prometheus.example (no such host)") {
		t.Error(err)
	}
}

func TestOpen(t *testing.T) {
	for _, address := range []string{"", "localhost:9090", "ftp://localhost", "http://", "http://u:p@localhost", "http://localhost/?q=1", "http://localhost/#x", "http://%zz"} {
		if _, err := Open(address, ""); err == nil {
			t.Errorf("%q is an address", address)
		}
	}
	for address, ok := range map[string]bool{"http://127.0.0.1:9090": true, "http://[::1]:9090": true, "http://localhost": true, "https://prometheus.example.com": true, "http://prometheus.example.com": false, "http://localhost.example.com": false} {
		if _, err := Open(address, "t"); (err == nil) != ok {
			t.Errorf("a token to %s: %v", address, err)
		}
	}
}
