package run

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestGoneBefore tests that objects that others have deleted are counted separately, alone or
// together with their namespace.
func TestGoneBefore(t *testing.T) {
	for name, c := range map[string]struct {
		gone            func(path string) bool
		forbidden       []string
		removed, absent int
	}{
		"nothing":                       {func(string) bool { return false }, nil, 6, 0},
		"an object in a namespace":      {func(path string) bool { return strings.HasSuffix(path, "n1/configmaps/m0") }, nil, 5, 1},
		"a namespace with all in it":    {func(path string) bool { return strings.Contains(path, "/n1") }, nil, 3, 3},
		"one that may be seen in n1":    {func(path string) bool { return strings.HasSuffix(path, "n1/configmaps/m0") }, []string{"LIST /api/v1/configmaps$"}, 5, 1},
		"one that nobody may list here": {func(path string) bool { return strings.HasSuffix(path, "n1/configmaps/m0") }, []string{"LIST /api/v1/configmaps$", "LIST /api/v1/namespaces/n1/configmaps$"}, 4, 1},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := undone(t, &undoCluster{forbidden: c.forbidden}, func(path string) (Was, bool) { return Created, !c.gone(path) })
			if err != nil && !errors.Is(err, ErrIncomplete) || out.Removed != c.removed || out.Absent != c.absent {
				t.Errorf("%d removed, %d gone already: %v; want %d and %d", out.Removed, out.Absent, err, c.removed, c.absent)
			}
		})
	}
}

// TestCutJournal tests that objects that the run's journal does not cover are found by the run's
// label, and kept.
func TestCutJournal(t *testing.T) {
	untouched := func(string) (Was, bool) { return Nothing, true }
	cl := &undoCluster{}
	out, err := undoneFrom(t, cl, untouched, 0)
	var x *Unknown
	if !errors.As(err, &x) || !errors.Is(err, ErrIncomplete) || x != out.Unknown || x.Objects != 6 || out.Removed != 0 || len(cl.objects) != 6 {
		t.Fatalf("%+v, %d there: %v", out, len(cl.objects), err)
	}
	if want := "kubectl delete configmaps,namespaces --all-namespaces -l fettle.dev/load-run=r1"; x.Command() != want {
		t.Errorf("%q, want %q", x.Command(), want)
	}
	if text := err.Error(); !strings.HasPrefix(text, "6 objects with the label fettle.dev/load-run=r1 exist in cluster http://") || !strings.HasSuffix(text, "; not deleted, because not in the journal") {
		t.Error(text)
	}
	// A journal that ends before the last object: its namespace holds what the journal does not.
	out, err = undoneFrom(t, cl, func(path string) (Was, bool) {
		if strings.HasSuffix(path, "n1/configmaps/m1") {
			return Nothing, true
		}
		return JournalKept, true
	}, everything-1)
	if !errors.As(err, &x) || x.Objects != 1 || out.Removed != 4 || len(cl.objects) != 2 || len(out.Kept) != 1 {
		t.Errorf("%+v, there are %d: %v", out, len(cl.objects), err)
	}
	// A run that did not come so far.
	out, err = undoneFrom(t, cl, func(path string) (Was, bool) {
		return Created, !strings.Contains(path, "configmaps")
	}, everything-4)
	if err != nil || out.Unknown != nil || out.Unseen != "" {
		t.Errorf("%+v: %v", out, err)
	}
	// Who may see no namespaces is told that it cannot be known; what is seen elsewhere is told.
	cl.forbidden = []string{"LIST /api/v1/namespaces$", "LIST /api/v1/configmaps$"}
	out, err = undoneFrom(t, cl, untouched, 0)
	if !errors.As(err, &x) || x.Objects != 4 || !slices.Equal(x.Resources, []string{"configmaps"}) || out.Unseen != "namespaces: the API server answers 403: not you" {
		t.Errorf("%+v: %v", out, err)
	}
	// A copy of an object, with its label, is not the run's.
	cl = &undoCluster{}
	const theirs = spacesPath + "/theirs/configmaps/m0"
	out, err = undoneFrom(t, cl, func(string) (Was, bool) {
		cl.objects[theirs], cl.notes[theirs] = "uid-theirs", 1
		return Nothing, false
	}, 0)
	if err != nil || out.Unknown != nil || len(cl.objects) != 1 {
		t.Errorf("%+v, there are %v: %v", out, cl.objects, err)
	}
}
