package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fettle.dev/fettle/kube/load/plan"
)

// undoCluster is an API server with namespaces and config maps, with UIDs by path. forbidden are
// verbs and paths; a $ at the end excludes the paths below.
type undoCluster struct {
	mu        sync.Mutex
	objects   map[string]string
	forbidden []string
	notes     map[string]int // the numbers of the run's objects, by their paths
	refused   bool           // what has failed was certainly not made
}

const spacesPath = "/api/v1/namespaces"

func (c *undoCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := r.URL.Path
	verb := r.Method
	if path == spacesPath || strings.HasSuffix(path, "/configmaps") {
		verb = "LIST"
	}
	say := func(status int, answer any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}
	if slices.ContainsFunc(c.forbidden, func(f string) bool { return strings.HasPrefix(verb+" "+path+"$", f) }) {
		say(http.StatusForbidden, o{"kind": "Status", "message": "not you"})
		return
	}
	metadata := func(at string) o {
		name := at[strings.LastIndexByte(at, '/')+1:]
		m := o{"name": name, "uid": c.objects[at]}
		if in, is := strings.CutPrefix(at, spacesPath+"/"); is && strings.Contains(in, "/") {
			m["namespace"], _, _ = strings.Cut(in, "/")
		}
		if i, ours := c.notes[at]; ours {
			m["labels"], m["annotations"] = o{plan.RunLabel: "r1"}, o{plan.ObjectNote: fmt.Sprint(i)}
		}
		return m
	}
	switch _, there := c.objects[path]; {
	case path == "/api/v1":
		say(http.StatusOK, has("configmaps"))
	case path == "/apis":
		say(http.StatusOK, o{"groups": []o{}})
	case verb == "LIST" && path == spacesPath:
		var all []o
		for at := range c.objects {
			if strings.Count(at, "/") == 4 {
				all = append(all, metadata(at))
			}
		}
		say(http.StatusOK, items(all...))
	case verb == "LIST":
		labelled := r.URL.Query().Get("labelSelector") != ""
		var all []o
		space := strings.TrimSuffix(path, "configmaps") // of one namespace, or of all
		for at := range c.objects {
			if _, ours := c.notes[at]; (ours || !labelled) && strings.Contains(at, "/configmaps/") && (space == "/api/v1/" || strings.HasPrefix(at, space)) {
				all = append(all, metadata(at))
			}
		}
		say(http.StatusOK, items(all...))
	case !there:
		say(http.StatusNotFound, o{"kind": "Status"})
	case verb == http.MethodDelete:
		maps.DeleteFunc(c.objects, func(at, _ string) bool { return at == path || strings.HasPrefix(at, path+"/") })
		say(http.StatusOK, o{"kind": "Status"})
	default:
		say(http.StatusOK, o{"metadata": metadata(path)})
	}
}

// undone creates the load of two namespaces with two config maps each, and undoes it. before may
// change the journal's record of an object.
func undone(t *testing.T, c *undoCluster, before func(path string) (Was, bool)) (*UndoOutcome, error) {
	t.Helper()
	return undoneFrom(t, c, before, everything)
}

// everything is the number of objects that a complete journal covers.
const everything = 6

// undoneFrom is undone with a journal that covers the given number of objects.
func undoneFrom(t *testing.T, c *undoCluster, before func(path string) (Was, bool), covered int) (*UndoOutcome, error) {
	t.Helper()
	l := &plan.Load{Stages: []plan.Stage{{At: "f:1", Prefix: "n", Iterations: 2, PerNamespace: 1, IfExists: plan.Fail, Groups: []plan.Group{{
		At: "f:2", File: "t", Count: 2, Template: json.RawMessage(`{"kind":"Template","apiVersion":"v1","parameters":[{"name":"IDENTIFIER"}],"objects":[{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m${IDENTIFIER}"}}]}`),
	}}}}}
	p, err := plan.Compile(t.Context(), l, "r1", nil)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(c)
	defer h.Close()
	server, err := serverAt(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	j, err := Create(t.TempDir(), Header{Run: "r1", Objects: p.Len()})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	u := &Undo{Plan: p, Server: server, Journal: j, State: &State{Reserved: covered, Objects: make([]Object, p.Len())}, Within: 10 * time.Second}
	c.objects, c.notes = map[string]string{}, map[string]int{}
	for i := range p.Len() {
		was, there := Created, true
		if before != nil {
			was, there = before(u.path(i))
		}
		uid := fmt.Sprint("uid-", i)
		u.State.Objects[i] = Object{Was: was, UID: uid, Refused: was == Failed && c.refused}
		if there {
			c.objects[u.path(i)], c.notes[u.path(i)] = uid, i
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return u.Do(ctx)
}

// TestForbidden tests that a missing permission keeps only the objects that need it.
func TestForbidden(t *testing.T) {
	for name, c := range map[string]struct {
		forbidden []string
		before    func(path string) (Was, bool)
		removed   int
		left      []string // of what is left, and why
		there     []string // what is in the cluster
	}{
		"nothing": {nil, nil, 6, nil, nil},
		"to see whether one was made": {
			[]string{"GET /api/v1/namespaces/n1/configmaps/m1"},
			func(path string) (Was, bool) {
				if strings.HasSuffix(path, "n1/configmaps/m1") {
					return Failed, false
				}
				return Created, true
			},
			5, []string{"ConfigMap n1/m1: unknown whether the run created it: the API server answers 403: not you"}, nil,
		},
		"to see what is in a namespace": {
			[]string{"LIST /api/v1/namespaces/n1/configmaps"}, nil,
			5, []string{"Namespace n1: unknown whether another client has put configmaps into it: the API server answers 403: not you"}, []string{"n1"},
		},
		"to delete a namespace": {
			[]string{"DELETE /api/v1/namespaces/n1$"}, nil,
			5, []string{"Namespace n1: the API server answers 403: not you"}, []string{"n1"},
		},
		"to delete anything of one": {
			[]string{"DELETE /api/v1/namespaces/n1"}, nil,
			3, []string{"ConfigMap n1/m0: the API server answers 403: not you", "ConfigMap n1/m1: the API server answers 403: not you", "Namespace n1: the API server answers 403: not you"}, []string{"n1", "n1/configmaps/m0", "n1/configmaps/m1"},
		},
		"to list namespaces": {[]string{"LIST /api/v1/namespaces$"}, nil, 6, nil, nil},
		"to see namespaces": {
			[]string{"LIST /api/v1/namespaces$", "GET /api/v1/namespaces/n0$"}, nil,
			3, []string{"Namespace n0: deleted, but unknown whether it is gone: the API server answers 403: not you"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cl := &undoCluster{forbidden: c.forbidden}
			out, err := undone(t, cl, c.before)
			if want := len(c.left) > 0; want != errors.Is(err, ErrIncomplete) || !want && err != nil {
				t.Error(err)
			}
			var left, there []string
			for _, k := range out.Kept {
				left = append(left, k.Object+": "+k.Why)
			}
			for path := range cl.objects {
				there = append(there, strings.TrimPrefix(path, spacesPath+"/"))
			}
			slices.Sort(left)
			slices.Sort(there)
			if out.Removed != c.removed || !slices.Equal(left, c.left) || !slices.Equal(there, c.there) || len(out.Waiting) > 0 {
				t.Errorf("%d removed, left %q, there are %q, waiting %q", out.Removed, left, there, out.Waiting)
			}
		})
	}
}

// TestUndoRefused tests that objects that were certainly not created are not searched.
func TestUndoRefused(t *testing.T) {
	for refused, want := range map[bool]error{true: nil, false: ErrIncomplete} {
		c := &undoCluster{forbidden: []string{"GET /api/v1/namespaces/n1/configmaps/m1"}, refused: refused}
		out, err := undone(t, c, func(path string) (Was, bool) {
			if strings.HasSuffix(path, "n1/configmaps/m1") {
				return Failed, false
			}
			return Created, true
		})
		if !errors.Is(err, want) || out.Removed != 5 || len(out.Kept) > 0 == refused {
			t.Errorf("refused %v: %+v %v", refused, out, err)
		}
	}
}

// TestSomebodyElses tests that another user's object in a namespace of the run stays, with the
// namespace, even with the run's label or as a copy of the run's object.
func TestSomebodyElses(t *testing.T) {
	c := &undoCluster{}
	const theirs, copied = spacesPath + "/n0/configmaps/theirs", spacesPath + "/n1/configmaps/copied"
	out, err := undone(t, c, func(string) (Was, bool) {
		c.objects[theirs], c.notes[theirs] = "uid-theirs", -1 // the label of the run
		c.objects[copied], c.notes[copied] = "uid-copied", 1  // and the note of an object
		return Created, true
	})
	if !errors.Is(err, ErrIncomplete) || out.Removed != 4 || len(out.Kept) != 2 {
		t.Errorf("%+v: %v", out, err)
	}
	if there := slices.Sorted(maps.Keys(c.objects)); !slices.Equal(there, []string{spacesPath + "/n0", theirs, spacesPath + "/n1", copied}) {
		t.Errorf("there are %q", there)
	}
}
