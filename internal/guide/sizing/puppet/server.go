package puppet

// Server is what is known of the Puppet Server that is sized, and of the web servers
// beside it.
type Server struct {
	Copy       string // the copy of a machine in which it was looked for; "" is this machine
	Version    string // "" where none is installed
	Enterprise bool   // Puppet Enterprise, whose Code Manager versions the code itself
	Satellite  bool   // its installer owns the server's files
	RedHat     bool   // the layout of Red Hat's packages for the web servers

	Static    bool   // static_catalogs
	StaticAt  string // where it is switched off
	Versioned bool   // code-id-command is set

	Interpreters int    // of one that it has, by itself or as it was told
	Heap         uint64 // bytes; 0 where it is not known
	CodeCache    uint64 // bytes; 0 where nobody chose

	// Files.
	Options      string // directory of its HOCON files, without a / before it
	OptionsFile  string // of max-active-instances, without a / before it
	OptionsText  string
	CommandsAt   string // where one of the commands of static catalogs is set outside of its own file; "" for nowhere
	HeadersAt    string // where allow-header-cert-info is set already; "" for nowhere
	Headers      bool   // what it is there
	Webserver    string // webserver.conf for plain HTTP on the loopback
	WebserverNo  string // why there is none
	JavaFile     string // of JAVA_ARGS, without a / before it
	JavaText     string
	Environments string // directory of the environments
	Data         string // directory that the server's user writes into
	User         string
	// OptionSet and JavaSet make those texts with other values.
	OptionSet func(text, key, value string) (string, error)
	JavaSet   func(text string, sizes map[string]string) (string, error)

	// TLS of the server itself; "" where it could not be told.
	Certificate, Key, CA, CRL string

	// FileRule says which rule of auth.conf does not let every node have what a cache would
	// give to all: "FILE:LINE does not ..."; "" where none is so.
	FileRule string

	Nginx, Apache string // versions; "" where not installed
}
