package profile

// Difference is an intended difference from TuneD in reading profiles. The manual prints the
// table. The comparison with TuneD marks its cases by ID and asserts both sides.
type Difference struct {
	ID string
	// Versions are the TuneD versions with this behavior: "all", or "2.20" for behavior of Debian
	// 12's TuneD that 2.28 no longer has.
	Versions string
	TuneD    string
	Fettle   string
	Why      string
	Source   string // file in TuneD's repository, redhat-performance/tuned
}

// Differences lists all intended differences.
var Differences = []Difference{
	{
		ID: "variables-leak", Versions: "all",
		TuneD:  "variables of all profiles loaded since the daemon started stay defined, so a profile can use variables of the previous profile, also in include=",
		Fettle: "each load starts without variables",
		Why:    "the meaning of a profile must not depend on earlier profiles",
		Source: "issue 76; profiles/variables.py, one Variables object for the life of the daemon",
	},
	{
		ID: "forward-reference", Versions: "all",
		TuneD:  "a variable that refers to a later one keeps the text ${name}; a child that overrides a variable keeps the parent's place, so it cannot refer to the child's new variables",
		Fettle: "the later definition is evaluated first; a direct or circular reference of a variable to itself keeps the text",
		Why:    "the order of lines in two files should not change their meaning",
		Source: "issue 751; profiles/merger.py and variables.py add_from_cfg",
	},
	{
		ID: "script-doubled", Versions: "all",
		TuneD:  "a child whose [script] section names no script runs every inherited script twice",
		Fettle: "inherited scripts run once",
		Why:    "an unintended effect of the code that joins the lists",
		Source: "profiles/merger.py, _merge_two",
	},
	{
		ID: "variable-named-script", Versions: "all",
		TuneD:  "a variable named script is made a path in the profile's directory and printed as a Python list",
		Fettle: "it is a variable like any other",
		Why:    "an unintended effect of reading script= in every section",
		Source: "profiles/loader.py, _load_config_data",
	},
	{
		ID: "empty-result-first", Versions: "all",
		TuneD:  "if a value begins with a function that returns nothing, the next character is skipped: a function directly after the first one stays unexpanded",
		Fettle: "the second function is expanded",
		Why:    "an off-by-one in the position after the replacement",
		Source: "profiles/functions/parser.py, _sub",
	},
	{
		ID: "function-without-name", Versions: "all",
		TuneD:  "the text ${f} ends the load with an unhandled IndexError",
		Fettle: "it stays as text, with a warning",
		Why:    "a typing error should be reported",
		Source: "profiles/functions/parser.py, _process_func",
	},
	{
		ID: "value-goes-on-nowhere", Versions: "all",
		TuneD:  "in a variables file an indented line after a name without \"=\" ends the load with an unhandled AttributeError",
		Fettle: "it is an error with its line",
		Why:    "a typing error should be reported",
		Source: "Python 3.11 configparser, _read",
	},
	{
		ID: "name-refused", Versions: "all",
		TuneD:  "a profile name with other characters than letters, digits, _ . - is silently dropped from the list",
		Fettle: "it is refused",
		Why:    "a selection with a missing profile is not what the user requested",
		Source: "profiles/loader.py, load",
	},
	{
		ID: "search-path", Versions: "all",
		TuneD:  "2.20 reads /usr/lib/tuned and /etc/tuned, 2.28 reads /usr/lib/tuned/profiles and /etc/tuned/profiles; profile_dirs replaces them",
		Fettle: "all four are read, then profile_dirs; fettle's own profiles come before all of them",
		Why:    "one program for both generations of files",
		Source: "consts.py, CFG_DEF_PROFILE_DIRS",
	},
	{
		ID: "answers-once", Versions: "all",
		TuneD:  "if a function of an option runs a program, the program runs each time the option is applied or verified",
		Fettle: "the program runs once per selection; its answer is recorded, and used again by verify and at boot",
		Why:    "what is verified must be what was applied",
		Source: "plugins/base.py, Variables.expand in each command",
	},
	{
		ID: "modifier-not-a-number", Versions: "all",
		TuneD:  "a value with > or < that cannot be compared is written with its > or <",
		Fettle: "it is an error",
		Why:    "no kernel value begins with > or <",
		Source: "plugins/base.py, _process_assignment_modifiers",
	},
	{
		ID: "recommend-without-virt-what", Versions: "all",
		TuneD:  "without virt-what every machine counts as bare metal",
		Fettle: "the CPU's hypervisor flag and the firmware's names are read instead; if these do not answer, the result is unknown, with a message",
		Why:    "an unknown result must not be read as bare metal",
		Source: "utils/profile_recommender.py, process_config",
	},
	{
		ID: "virt-check-without-virt-what", Versions: "all",
		TuneD:  "if virt-what is missing or fails, virt_check returns bare metal for every machine",
		Fettle: "the machine's files are read instead, as for the recommendation",
		Why:    "otherwise the profile for OpenShift would include the bare-metal profile on a guest",
		Source: "profiles/functions/function_virt_check.py",
	},
	{
		ID: "regexp-dialect", Versions: "all",
		TuneD:  "Python's re",
		Fettle: "the same syntax, but look-around, back-references, conditional and atomic groups, possessive repeats and verbose mode are refused; \\b knows ASCII words only",
		Why:    "matching takes time linear in the text, whatever the pattern; no published profile needs the rest",
		Source: "Go regexp/syntax",
	},
	{
		ID: "untrusted-directory", Versions: "all",
		TuneD:  "acts on any file in its profile directories",
		Fettle: "included files, variables files and scripts are refused where programs run, if users other than root can write them; so are functions that run programs, if such users can write any file of the profile",
		Why:    "otherwise every user who can write such a file becomes root",
		Source: "CVE-2024-52336 used the same path",
	},
	{
		ID: "limits", Versions: "all",
		TuneD:  "no limits",
		Fettle: "1 MiB for a file and for an expanded value, 64 calls inside one another, 10000 calls, 500 files",
		Why:    "a copied tree may be hostile input",
		Source: "",
	},
	{
		ID: "cpu-number-limit", Versions: "all",
		TuneD:  "a CPU list may have any numbers",
		Fettle: "a CPU number of 8192 or more ends the load",
		Why:    "no kernel has such a CPU, and a list to 2^40 would take all memory",
		Source: "utils/commands.py, cpulist_unpack and hex2cpulist",
	},
	{
		ID: "ascii-digits", Versions: "all",
		TuneD:  "digits of any writing system count as numbers",
		Fettle: "only 0-9 do",
		Why:    "the kernel accepts no others",
		Source: "Python int, str.isdigit and str.isdecimal",
	},
	{
		ID: "invert-order", Versions: "all",
		TuneD:  "cpulist_invert gives the CPUs in the order of a hash table",
		Fettle: "in ascending order",
		Why:    "the same machine should always give the same text",
		Source: "utils/commands.py, cpulist_invert",
	},
	{
		ID: "package-glob", Versions: "2.28",
		TuneD:  "package2cpus, and package2uncores with the TPMI driver, compare a glob with the number and its newline, so [01] and ? match nothing; the devices come in directory order",
		Fettle: "the number alone is compared; devices are in order",
		Why:    "an unintended effect of reading the file",
		Source: "profiles/functions/function_package2cpus.py and function_package2uncores.py",
	},
	{
		ID: "isolated-cores-argument", Versions: "2.28",
		TuneD:  "calc_isolated_cores with an argument that is not a number ends the load with an unhandled AttributeError",
		Fettle: "as in TuneD 2.20: the call stays as text, with a warning",
		Why:    "a typing error should be reported",
		Source: "profiles/functions/function_calc_isolated_cores.py",
	},
	{
		ID: "isolated-cores-packed", Versions: "2.20",
		TuneD:  "calc_isolated_cores gives every number, 1,2,3",
		Fettle: "as in TuneD 2.28: ranges, 1-3",
		Why:    "today's profiles are written for TuneD 2.28",
		Source: "profiles/functions/function_calc_isolated_cores.py of 2.20 and 2.28",
	},
	{
		ID: "variables-as-unit", Versions: "2.20",
		TuneD:  "[variables] is merged like any other section: drop= removes inherited variables, prepend= is itself a variable, and only a section of that name counts, whatever its type=",
		Fettle: "as in TuneD 2.28: drop= does nothing there, prepend=1 puts new variables first, and any section of type=variables counts",
		Why:    "today's profiles are written for TuneD 2.28",
		Source: "profiles/merger.py and loader.py of 2.20 and 2.28",
	},
	{
		ID: "priority-as-option", Versions: "2.20",
		TuneD:  "priority= is an option, which drop=priority removes",
		Fettle: "as in TuneD 2.28: an attribute of the section",
		Why:    "today's profiles are written for TuneD 2.28",
		Source: "units/manager.py of 2.20 and profiles/unit.py of 2.28",
	},
}
