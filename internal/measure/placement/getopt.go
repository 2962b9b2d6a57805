package placement

import (
	"fmt"
	"strings"
)

// argument states whether an option of another program takes an argument.
type argument int

const (
	noArgument argument = iota
	needsArgument
	mayHaveArgument // only in the same word: -s2, --name=2
)

// option is an option of a program whose command line fettle accepts unchanged.
type option struct {
	short    byte
	long     string
	argument argument
}

// given is an option as given on a command line, with its argument.
type given struct {
	short    byte
	argument string
}

// getopt parses a command line as getopt_long(3) does: options may be combined, long names may
// be shortened, and "--" ends the options. With permute, options may follow other arguments;
// without, the first other argument ends them.
func getopt(args []string, options []option, permute bool) (found []given, rest []string, err error) {
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		switch {
		case word == "--":
			return found, append(rest, args...), nil
		case strings.HasPrefix(word, "--"):
			found, args, err = longOption(found, word[2:], args, options)
		case len(word) > 1 && word[0] == '-':
			found, args, err = shortOptions(found, word[1:], args, options)
		case permute:
			rest = append(rest, word)
		default:
			return found, append([]string{word}, args...), nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return found, rest, nil
}

func shortOptions(found []given, letters string, args []string, options []option) ([]given, []string, error) {
	for i := range len(letters) {
		var match *option
		for j := range options {
			if options[j].short == letters[i] {
				match = &options[j]
			}
		}
		left := letters[i+1:]
		switch {
		case match == nil:
			return nil, nil, fmt.Errorf("unknown option -%c", letters[i])
		case match.argument == noArgument:
			found = append(found, given{short: match.short})
			continue
		case match.argument == needsArgument && left == "" && len(args) == 0:
			return nil, nil, fmt.Errorf("option -%c needs an argument", letters[i])
		case match.argument == needsArgument && left == "":
			left, args = args[0], args[1:]
		}
		return append(found, given{match.short, left}), args, nil
	}
	return found, args, nil
}

func longOption(found []given, word string, args []string, options []option) ([]given, []string, error) {
	name, value, has := strings.Cut(word, "=")
	var matches []option
	for _, o := range options {
		if o.long == name {
			matches = []option{o}
			break
		}
		if o.long != "" && strings.HasPrefix(o.long, name) {
			matches = append(matches, o)
		}
	}
	switch {
	case len(matches) == 0:
		return nil, nil, fmt.Errorf("unknown option --%s", name)
	case len(matches) > 1 && matches[0].short != matches[len(matches)-1].short:
		return nil, nil, fmt.Errorf("--%s could be --%s or --%s", name, matches[0].long, matches[1].long)
	case has && matches[0].argument == noArgument:
		return nil, nil, fmt.Errorf("option --%s takes no argument", matches[0].long)
	case !has && matches[0].argument == needsArgument && len(args) == 0:
		return nil, nil, fmt.Errorf("option --%s needs an argument", matches[0].long)
	case !has && matches[0].argument == needsArgument:
		value, args = args[0], args[1:]
	}
	return append(found, given{matches[0].short, value}), args, nil
}
