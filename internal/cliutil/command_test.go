package cliutil

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/ui"
)

// tree is a small program.
func tree() *cobra.Command {
	var output string
	root := &cobra.Command{Use: "prog", Long: "It does things."}
	Root(root, &ui.Screen{}, &output)
	run := func(*cobra.Command, []string) error { return nil }
	root.AddCommand(
		&cobra.Command{Use: "one FILE", Args: cobra.ExactArgs(1), RunE: run},
		&cobra.Command{Use: "two A B (--x | --y)", Args: cobra.ExactArgs(2), RunE: run},
		&cobra.Command{Use: "many TIME|LINE PROFILE... --to N", Args: cobra.MinimumNArgs(2), RunE: run},
		&cobra.Command{Use: "maybe [RUN]", Args: cobra.MaximumNArgs(1), RunE: run},
		&cobra.Command{Use: "none", Args: cobra.NoArgs, RunE: run},
		&cobra.Command{Use: "own [X]", Args: func(*cobra.Command, []string) error { return errors.New("as it says") }, RunE: run},
		&cobra.Command{Use: "unsaid", Args: cobra.MinimumNArgs(1), RunE: run},
	)
	group := &cobra.Command{Use: "group", Args: KnownVerb, RunE: run}
	group.AddCommand(&cobra.Command{Use: "inner", RunE: run})
	root.AddCommand(group)
	own := &cobra.Command{Use: "agent", Args: cobra.NoArgs, RunE: run}
	own.AddCommand(&cobra.Command{Use: "uninstall", RunE: run})
	pod := &cobra.Command{Use: "pod", Args: KnownVerb, RunE: run}
	pod.AddCommand(&cobra.Command{Use: "verify", RunE: run})
	root.AddCommand(own, pod)
	for _, c := range root.Commands() {
		if c.Name() == "none" {
			c.Flags().Int("n", 0, "")
			c.Flags().Float64("f", 0, "")
			c.Flags().Bool("b", false, "")
			c.Flags().Duration("d", 0, "")
		}
	}
	return Words(Defaults(root), nil)
}

func TestWords(t *testing.T) {
	for words, want := range map[string]string{
		"one":                             "FILE is missing: want prog one FILE",
		"one a b":                         `unexpected argument "b"; want prog one FILE`,
		"two":                             "A and B are missing: want prog two A B",
		"two a":                           "B is missing: want prog two A B",
		"two a b c d":                     `unexpected argument "c"; want prog two A B`,
		"many":                            "TIME or LINE and PROFILE are missing: want prog many TIME|LINE PROFILE...",
		"many a":                          "PROFILE is missing: want prog many TIME|LINE PROFILE...",
		"maybe a b":                       `unexpected argument "b"; want prog maybe [RUN]`,
		"none a":                          `unexpected argument "a"; want prog none`,
		"none --n x":                      `--n "x": want a whole number`,
		"none --n 1.5":                    `--n "1.5": want a whole number`,
		"none --n=9999999999999999999999": `--n "9999999999999999999999": want a smaller number`,
		"none --f x":                      `--f "x": want a number`,
		"none --b=x":                      `--b "x": want true or false`,
		"none --d 5":                      `--d "5": want a time such as 30s or 5m`,
		"foo":                             `unknown command "foo"`,
		"pdo":                             `unknown command "pdo" (did you mean "pod"?)`,
		"help foo":                        `unknown command "foo"`,
		"mayb":                            `unknown command "mayb" (did you mean "maybe"?)`,
		"ma":                              `unknown command "ma" (did you mean "many"?)`,
		"own":                             "as it says",
		"unsaid":                          "requires at least 1 arg(s), only received 0",
		"oen":                             `unknown command "oen" (did you mean "one"?)`,
		"oen --no":                        `unknown command "oen" (did you mean "one"?)`,
		"one --no":                        "unknown flag: --no",
		"group innre":                     `unknown command "innre" (did you mean "inner"?)`,
		"group nothing":                   `unknown command "nothing"`,
		"agent unistall":                  `unknown command "unistall" (did you mean "uninstall"?)`,
		"agent":                           "",
		"help":                            "",
		"help one":                        "",
		"help nothing":                    `unknown command "nothing"`,
		"help oen":                        `unknown command "oen" (did you mean "one"?)`,
		"help group inr":                  `unknown command "inr" (did you mean "inner"?)`,
		"help group x":                    `unknown command "x"`,
		"help one x":                      `unknown command "x"`,
		"completion":                      "",
		"completion x":                    `unknown command "x"`,
		"one a":                           "",
		"many a b c d e":                  "",
		"maybe":                           "",
		"":                                "",
	} {
		root := tree()
		root.SetArgs(strings.Fields(words))
		root.SetOut(&bytes.Buffer{})
		err := root.Execute()
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", words, err)
			}
			continue
		}
		var e *ui.Error
		if err == nil || err.Error() != want || !errors.As(err, &e) || e.Code != ui.Usage || !strings.HasPrefix(e.Hint, "run: prog") && e.Remedy == nil {
			t.Errorf("%s: %#v (%v), want %q", words, err, err, want)
		}
	}
}

// What went wrong is said once, and who asked for data gets some.
func TestEnded(t *testing.T) {
	for _, c := range []struct {
		format ui.Format
		result bool
		out    string
	}{{ui.Table, false, ""}, {ui.JSON, false, `"schema": "fettle/error/v1"`}, {ui.JSON, true, `"schema": "fettle/x/v1"`}} {
		var out, said bytes.Buffer
		s := ui.NewScreen(&out, &said)
		s.Name, s.Format = "prog x", c.format
		err := ui.Exit(ui.Refused, errors.New("it is refused"))
		if c.result {
			err = Result(s, struct {
				Schema string `json:"schema"`
			}{"fettle/x/v1"}, err)
		}
		Ended(s, err)
		if said.String() != "prog x: it is refused\n" || !strings.Contains(out.String(), c.out) || strings.Count(out.String(), `"schema"`) != strings.Count(c.out, "schema") {
			t.Errorf("%+v: said %q, printed %q", c, said.String(), out.String())
		}
		if c.out != "" && (!strings.Contains(out.String(), `"it is refused"`) || !strings.Contains(out.String(), `"exit_code": 4`)) {
			t.Errorf("%+v: printed %s", c, out.String())
		}
	}
}
