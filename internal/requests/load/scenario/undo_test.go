package scenario

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
)

// TestUndoClosesConnections: an undo keeps the connection of a host while objects of the host are
// left, and no longer: a server with few threads waits for requests on idle connections.
func TestUndoClosesConnections(t *testing.T) {
	var mu sync.Mutex
	connected := map[net.Conn]bool{}
	deletes, most := 0, 0
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			deletes++ // one request at a time
		}
		fmt.Fprint(w, `{"id": 1}`)
	}))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if state == http.StateClosed {
			delete(connected, c)
		} else {
			connected[c] = true
		}
		most = max(most, len(connected))
	}
	s.Start()
	defer s.Close()
	p := planOf(t, s.URL, `
load: {hosts: 1}
steps: [{name: a, http: {method: POST, url: "${web}/"}, take: {id: {jsonpath: $.id}}, creates: {name: "${name}", id: "${id}", remove: "${web}/${id}"}}]
`)
	dir := filepath.Join(t.TempDir(), "scenarios")
	j, err := Create(dir, Head{Options: p.Options})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	const hosts = 20
	x := &Objects{Head: Head{Options: p.Options}}
	for n := range int64(2 * hosts) {
		x.all = append(x.all, object{N: n, Step: "a", Host: int(n / 2), Name: "x", ID: "1", Remove: s.URL + "/1"})
	}
	u, err := Undo(t.Context(), p, j, x, func(int, int) {})
	if err != nil || u.Removed != 2*hosts || deletes != 2*hosts {
		t.Fatalf("%v: %d requests, %+v", err, deletes, u)
	}
	mu.Lock()
	defer mu.Unlock()
	if most > hosts/2 { // a server notices late that a connection is closed
		t.Errorf("%d connections at a time", most)
	}
}
