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
	Root(root, &output)
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
	root.AddCommand(one, &cobra.Command{Use: "two A B", Args: cobra.ExactArgs(2), RunE: run})
	return Words(Defaults(root), map[string]string{"one": "file.txt --number 3", "two": "a b"})
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
		"two":                        "prog two a b",
		"two x":                      "prog two x b",
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
