// The oldest Go that Debian 12 has.
module ramhold/checker

go 1.19

require github.com/anishathalye/porcupine v1.3.1
