package cliutil

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/ui"
)

// limited is a small program whose options take some values only.
func limited([]string) *cobra.Command {
	var output string
	root := &cobra.Command{Use: "prog", Long: "It does things."}
	Root(root, &ui.Screen{}, &output)
	run := func(*cobra.Command, []string) error { return nil }
	one := &cobra.Command{Use: "one FILE", Args: cobra.ExactArgs(1), RunE: run}
	f := one.Flags()
	f.IntP("number", "n", 0, "")
	f.String("word", "", "")
	f.StringArray("list", nil, "")
	f.BoolP("bool", "b", false, "")
	Between(f, "number", 1, 9, 5)
	OneOf(f, "word", "first", "second")
	Reads(f, "list", "a=b", func(word string) error {
		if !strings.Contains(word, "=") {
			return errors.New("want A=B")
		}
		return nil
	})
	root.AddCommand(one, &cobra.Command{Use: "two A B", Args: cobra.ExactArgs(2), RunE: run}, &cobra.Command{Use: "all [NAME]...", RunE: run})
	return Words(Defaults(root), map[string]Guide{"one": {Calls: []string{"file.txt --number 3"}}, "two": {Calls: []string{"a b"}}})
}

// Each fault of a call is mended, several at once too, and nothing else of it is changed.
func TestCalls(t *testing.T) {
	for words, want := range map[string]string{
		"one x --number 12":          "prog one x --number=9",
		"one x -n 12":                "prog one x --number=9",
		"one x -n12 -b":              "prog one x --number=9 -b",
		"one x --number y":           "prog one x --number=5",
		"one x --number":             "prog one x --number=5",
		"one x --word secnd":         "prog one x --word=second",
		"one x --word zzzzzzzz":      "prog one x --word=first",
		"one --list a=1 --list q x":  "prog one --list a=1 --list=a=b x",
		"one --numbr 4 x":            "prog one --number 4 x",
		"one --numbr=44 x":           "prog one --number=9 x",
		"one --nothing x":            "prog one x",
		"one x --nothing 5":          "prog one x",
		"one --number 0 --word q -b": "prog one --number=1 --word=first -b file.txt",
		"one x y z":                  "prog one x",
		"one x -- y":                 "prog one x --",
		"one 'a b' --number 0":       "prog one 'a b' --number=1",
		"one x --output jsn":         "prog one x --output=json",
		"two x":                      "prog two x b",
		"all --nothing x":            "prog all",
		"all --nothing 5 --word":     "prog all",
		"oen x --number 0":           "prog one x --number=1",
		"one x -q":                   "prog one x",
	} {
		var args []string
		for w := range strings.FieldsSeq(strings.ReplaceAll(words, "'a b'", "a_b")) {
			args = append(args, strings.ReplaceAll(w, "_", " "))
		}
		var e *ui.Error
		if err := Parse(limited(nil), args); !errors.As(err, &e) || e.Remedy == nil {
			t.Errorf("%s: %v has no remedy", words, err)
			continue
		}
		if got := Calls("prog", args, limited)(*e.Remedy); got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
}

// related is a small program whose flags exclude and require each other.
func related([]string) *cobra.Command {
	var output string
	root := &cobra.Command{Use: "prog", Long: "It does things."}
	Root(root, &ui.Screen{}, &output)
	c := &cobra.Command{Use: "one", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
	f := c.Flags()
	f.Bool("full", false, "")
	f.Bool("short", false, "")
	f.Bool("long", false, "")
	f.String("time", "", "")
	f.String("log", "", "")
	f.Int("speed", 1, "")
	f.String("prefix", "", "")
	f.Int("writes", 1, "")
	Between(f, "writes", 1, 9, 5)
	NotEmpty(c)
	Exclusive(c, "full", "short", "long")
	Excludes(c, "full", "it takes its time", "time")
	Requires(c, "--long", "time")
	Requires(c, "--log", "speed")
	Requires(c, "--prefix=bench/", "writes")
	root.AddCommand(c)
	return Words(Defaults(root), nil)
}

func TestRules(t *testing.T) {
	for words, want := range map[string]string{
		"one --full --short --long":   "prog one --full",
		"one --full=false --short":    "prog one --full=false",
		"one --long --time 5 --full":  "prog one --full",
		"one --full --time 5":         "prog one --full",
		"one --time 5":                "prog one --time 5 --long",
		"one --speed 5":               "prog one",
		"one --writes 3":              "prog one --writes 3 --prefix=bench/",
		"one --writes 30":             "prog one --writes=9 --prefix=bench/",
		"one --time= --short --full":  "prog one --full",
		"one --log x --speed 3":       "",
		"one --long --time 3":         "",
		"one --prefix a/ --writes 3":  "",
		"one --full":                  "",
		"one --short --full=false -h": "",
	} {
		args := strings.Fields(words)
		err := Parse(related(nil), args)
		var e *ui.Error
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", words, err)
		case want != "" && (!errors.As(err, &e) || e.Code != ui.Usage || e.Remedy == nil):
			t.Errorf("%s: %v has no remedy", words, err)
		case want != "":
			if got := Calls("prog", args, related)(*e.Remedy); got != want {
				t.Errorf("%s: %q, want %q", words, got, want)
			}
			root := related(nil)
			root.SetArgs(args)
			if run := root.Execute(); run == nil || run.Error() != err.Error() {
				t.Errorf("%s: run: %v, parsed: %v", words, run, err)
			}
		}
	}
}
