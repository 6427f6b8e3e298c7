// One file, of whichever form: bundles are told apart by their content.

import { verifyBundle } from "./verify_bundle.mjs";
import { verifyPeriod } from "./verify_period.mjs";
import { isArchive } from "./zip_directory.mjs";

/** The verdict document on one bundle; arguments as for a period, whose range a single bundle does not have.
 *  `how.at` is whole seconds since 1970. */
export function verifyFile(data, trust, how) {
  if (!Number.isSafeInteger(how.at)) throw new TypeError("a bundle is judged at a whole second");
  return isArchive(data) ? verifyPeriod(data, trust, how) : verifyBundle(data, trust, how);
}
