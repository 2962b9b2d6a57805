package platform

import (
	"slices"
	"testing"

	"fettle.dev/fettle/internal/fact"
)

func TestKnown(t *testing.T) {
	k := &Known{}
	if a := k.Answer("a.b"); a != (fact.Answer{}) {
		t.Errorf("nothing was given, and the answer is %+v", a)
	}
	if names, why := k.Items("a"); len(names) > 0 || why != "" {
		t.Errorf("nothing was added, and there are %v %s", names, why)
	}
	for _, name := range []string{"y", "x", "y"} {
		k.Add("a", name)
	}
	k.Give("a.x.size", 110.0, "file x")
	k.Unclear("a.y.size", "file y", "forbidden")
	k.Put(fact.Answer{Value: "z", At: "both"}, "a.x.name", "a.y.name")
	k.Unlisted("b", "too many")
	for input, want := range map[string]fact.Answer{
		"a.x.size": {Value: 110.0, At: "file x"}, "a.y.size": {Unknown: "forbidden", At: "file y"},
		"a.x.name": {Value: "z", At: "both"}, "a.y.name": {Value: "z", At: "both"}, "a.z.name": {},
	} {
		if got := k.Answer(input); got != want {
			t.Errorf("%s: %+v, want %+v", input, got, want)
		}
	}
	if names, why := k.Items("a"); !slices.Equal(names, []string{"y", "x"}) || why != "" {
		t.Errorf("%v %s", names, why)
	}
	if _, why := k.Items("b"); why != "too many" {
		t.Error(why)
	}
	k.Sort()
	k.Rest("not read")
	if names, why := k.Items("a"); !slices.Equal(names, []string{"x", "y"}) || why != "not read" {
		t.Errorf("%v %s", names, why)
	}
	if _, why := k.Items("b"); why != "too many" {
		t.Error(why)
	}
	if got := k.Answer("a.x.size"); got.Value != 110.0 || got.Unknown != "" {
		t.Errorf("%+v", got)
	}
	if got := k.Answer("a.z.name"); got.Unknown != "not read" {
		t.Errorf("%+v", got)
	}
	if _, ok := k.Given("a.z.name"); ok {
		t.Error("the rest is given")
	}
}
