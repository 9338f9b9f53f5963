//! Fields of dates and times, such as the hour or the ISO week, and times without the fields below
//! one.
//!
//! A moment has the fields of its local time in a zone. Julian days with a fraction are left out.

use placement::{
    Interval, Numeric, TimeZone, Value, ValueRef, civil_from_days, days_from_civil, moment_of,
};

use super::{ExpressionError, ScalarFunction};

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;

/// A field of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeField {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    IsoYear,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Epoch,
    Zone,
    ZoneHour,
    ZoneMinute,
}

impl TimeField {
    /// Returns the field of a name in any case.
    fn parse(name: &str) -> Result<TimeField, ExpressionError> {
        Ok(match &*name.to_ascii_lowercase() {
            "microsecond" | "microseconds" => TimeField::Microseconds,
            "millisecond" | "milliseconds" => TimeField::Milliseconds,
            "second" | "seconds" => TimeField::Second,
            "minute" | "minutes" => TimeField::Minute,
            "hour" | "hours" => TimeField::Hour,
            "day" | "days" => TimeField::Day,
            "week" | "weeks" => TimeField::Week,
            "month" | "months" => TimeField::Month,
            "quarter" => TimeField::Quarter,
            "year" | "years" => TimeField::Year,
            "decade" | "decades" => TimeField::Decade,
            "century" | "centuries" => TimeField::Century,
            "millennium" | "millennia" => TimeField::Millennium,
            "isoyear" => TimeField::IsoYear,
            "dow" => TimeField::DayOfWeek,
            "isodow" => TimeField::IsoDayOfWeek,
            "doy" => TimeField::DayOfYear,
            "epoch" => TimeField::Epoch,
            "timezone" => TimeField::Zone,
            "timezone_hour" => TimeField::ZoneHour,
            "timezone_minute" => TimeField::ZoneMinute,
            _ => return Err(ExpressionError::UnknownField),
        })
    }

    /// Returns the microseconds of a field that is shorter than a day.
    fn clock_us(self) -> Option<i64> {
        Some(match self {
            TimeField::Microseconds => 1,
            TimeField::Milliseconds => 1000,
            TimeField::Second => SECOND_US,
            TimeField::Minute => MINUTE_US,
            TimeField::Hour => HOUR_US,
            _ => return None,
        })
    }

    /// Returns whether the field never becomes less with time, so that infinities have it.
    fn is_monotonic(self) -> bool {
        matches!(
            self,
            TimeField::Year
                | TimeField::Decade
                | TimeField::Century
                | TimeField::Millennium
                | TimeField::IsoYear
                | TimeField::Epoch
        )
    }
}

/// Returns the value of a function of the name of a field and a time. A moment is seen in a zone.
pub(super) fn call(
    function: ScalarFunction,
    field: &str,
    time: ValueRef<'_>,
    zone: &TimeZone<'_>,
) -> Result<Value, ExpressionError> {
    let field = TimeField::parse(field)?;
    match function {
        ScalarFunction::DateTrunc => truncated(field, time, zone),
        ScalarFunction::DatePart => {
            // It takes a date as its midnight, unlike EXTRACT.
            let time = match time {
                ValueRef::Date(days) => {
                    let midnight = moment_of(days).map_err(|_| ExpressionError::Overflow)?;
                    ValueRef::Timestamp(midnight)
                }
                // PostgreSQL computes it in doubles.
                ValueRef::Interval(value) if field == TimeField::Epoch => {
                    return Ok(Value::Float64(epoch_double(value)));
                }
                time => time,
            };
            match extracted(field, time, zone)? {
                Value::Numeric(number) => {
                    let double = number.as_ref().to_double();
                    double.map(Value::Float64).ok_or(ExpressionError::Overflow)
                }
                null => Ok(null),
            }
        }
        _ => extracted(field, time, zone),
    }
}

/// Returns a time without the fields below one.
fn truncated(
    field: TimeField,
    time: ValueRef<'_>,
    zone: &TimeZone<'_>,
) -> Result<Value, ExpressionError> {
    let overflow = ExpressionError::Overflow;
    let function = ScalarFunction::DateTrunc;
    match time {
        ValueRef::Timestamp(at @ (i64::MIN | i64::MAX)) => Ok(Value::Timestamp(at)),
        ValueRef::TimestampTz(at @ (i64::MIN | i64::MAX)) => Ok(Value::TimestampTz(at)),
        ValueRef::Timestamp(local) => Ok(Value::Timestamp(truncated_local(field, local)?)),
        ValueRef::Interval(value) => truncated_interval(field, value).map(Value::Interval),
        ValueRef::TimestampTz(at) => {
            let local = zone.local(at).ok_or(overflow)?;
            let truncated = truncated_local(field, local)?;
            // Within an hour that comes twice, the offset stays.
            let moment = match field.clock_us() {
                Some(_) => truncated.checked_sub(local - at),
                None => zone.moment(truncated),
            };
            moment.map(Value::TimestampTz).ok_or(overflow)
        }
        _ => Err(ExpressionError::WrongOperands { function }),
    }
}

fn truncated_local(field: TimeField, local: i64) -> Result<i64, ExpressionError> {
    if let Some(unit) = field.clock_us() {
        return Ok(local - local.rem_euclid(unit));
    }
    let days = local.div_euclid(DAY_US);
    let (year, month, _) = civil_from_days(days);
    let first = |year, month: i64| {
        let month = u32::try_from(month).expect("a month is from 1 to 12");
        days_from_civil(year, month, 1).expect("each month has a first day")
    };
    let days = match field {
        TimeField::Day => days,
        TimeField::Week => days - (iso_weekday(days) - 1),
        TimeField::Month => first(year, month),
        TimeField::Quarter => first(year, (month - 1) / 3 * 3 + 1),
        TimeField::Year => first(year, 1),
        TimeField::Decade => first(decade(year) * 10, 1),
        TimeField::Century if year > 0 => first(century(year) * 100 - 99, 1),
        TimeField::Century => first(century(year) * 100 + 1, 1),
        TimeField::Millennium if year > 0 => first(millennium(year) * 1000 - 999, 1),
        TimeField::Millennium => first(millennium(year) * 1000 + 1, 1),
        _ => return Err(ExpressionError::UnknownField),
    };
    days.checked_mul(DAY_US).ok_or(ExpressionError::Overflow)
}

/// Returns a field of a time as a numeric; NULL if an infinity does not have it.
fn extracted(
    field: TimeField,
    time: ValueRef<'_>,
    zone: &TimeZone<'_>,
) -> Result<Value, ExpressionError> {
    let function = ScalarFunction::Extract;
    let (at, ahead) = match time {
        ValueRef::Date(i32::MAX) => (i64::MAX, 0),
        ValueRef::Date(i32::MIN) => (i64::MIN, 0),
        ValueRef::Date(days) => return of_date(field, days.into()),
        ValueRef::Timestamp(local) => (local, 0),
        ValueRef::TimestampTz(at @ (i64::MIN | i64::MAX)) => (at, 0),
        ValueRef::TimestampTz(at) => (at, zone.ahead_at(at.div_euclid(SECOND_US))),
        ValueRef::Time(micros) => return of_time(field, micros),
        ValueRef::Interval(value) => return of_interval(field, value),
        _ => return Err(ExpressionError::WrongOperands { function }),
    };
    let is_zoned = matches!(time, ValueRef::TimestampTz(_));
    let is_of_zone = matches!(
        field,
        TimeField::Zone | TimeField::ZoneHour | TimeField::ZoneMinute
    );
    if is_of_zone && !is_zoned {
        return Err(ExpressionError::UnknownField);
    }
    if matches!(at, i64::MIN | i64::MAX) {
        let is_clock = matches!(time, ValueRef::Date(_)) && field.clock_us().is_some();
        return match field.is_monotonic() {
            _ if is_clock => Err(ExpressionError::UnknownField),
            true => decimal(if at > 0 { "Infinity" } else { "-Infinity" }),
            false => Ok(Value::Null),
        };
    }
    let local = at + i64::from(ahead) * SECOND_US;
    let of_day = local.rem_euclid(DAY_US);
    let micros = of_day % MINUTE_US;
    let ahead = i64::from(ahead);
    whole(match field {
        TimeField::Microseconds => micros,
        TimeField::Milliseconds => {
            return decimal(&alloc::format!("{}.{:03}", micros / 1000, micros % 1000));
        }
        TimeField::Second => {
            let (seconds, fraction) = (micros / SECOND_US, micros % SECOND_US);
            return decimal(&alloc::format!("{seconds}.{fraction:06}"));
        }
        TimeField::Epoch => {
            let sign = if at < 0 { "-" } else { "" };
            let second = SECOND_US.unsigned_abs();
            let (seconds, fraction) = (at.unsigned_abs() / second, at.unsigned_abs() % second);
            return decimal(&alloc::format!("{sign}{seconds}.{fraction:06}"));
        }
        TimeField::Minute => of_day / MINUTE_US % 60,
        TimeField::Hour => of_day / HOUR_US,
        TimeField::Zone => ahead,
        TimeField::ZoneHour => ahead / 3600,
        TimeField::ZoneMinute => ahead / 60 % 60,
        field => return of_date(field, local.div_euclid(DAY_US)),
    })
}

/// Returns a field of a time of the day.
fn of_time(field: TimeField, micros: i64) -> Result<Value, ExpressionError> {
    match field {
        TimeField::Epoch => micros_as(micros.into(), 6),
        field if field.clock_us().is_some() => of_clock(field, micros),
        _ => Err(ExpressionError::FieldOfOtherType),
    }
}

/// Returns a field of microseconds, which may be negative.
fn of_clock(field: TimeField, micros: i64) -> Result<Value, ExpressionError> {
    let of_minute = micros % MINUTE_US;
    match field {
        TimeField::Microseconds => whole(of_minute),
        TimeField::Milliseconds => micros_as(of_minute.into(), 3),
        TimeField::Second => micros_as(of_minute.into(), 6),
        TimeField::Minute => whole(micros / MINUTE_US % 60),
        _ => whole(micros / HOUR_US),
    }
}

/// Returns a field of an interval. Fields of a negative one are negative.
fn of_interval(field: TimeField, value: Interval) -> Result<Value, ExpressionError> {
    let years = i64::from(value.years());
    let months = i64::from(value.months_of_year());
    whole(match field {
        TimeField::Day => value.days.into(),
        TimeField::Month => months,
        TimeField::Quarter => months / 3 + 1,
        TimeField::Year => years,
        TimeField::Decade => years / 10,
        TimeField::Century => years / 100,
        TimeField::Millennium => years / 1000,
        TimeField::Epoch => {
            // A year has 365.25 days here, so all is counted in quarters of a day.
            const QUARTER_US: i128 = DAY_US as i128 / 4;
            let quarters = 1461 * years + 120 * months + 4 * i64::from(value.days);
            let micros = i128::from(quarters) * QUARTER_US + i128::from(value.micros);
            return micros_as(micros, 6);
        }
        field if field.clock_us().is_some() => return of_clock(field, value.micros),
        _ => return Err(ExpressionError::FieldOfOtherType),
    })
}

/// Returns the seconds of an interval, as PostgreSQL adds them.
fn epoch_double(value: Interval) -> f64 {
    let day = (DAY_US / SECOND_US) as f64;
    let mut seconds = value.micros as f64 / SECOND_US as f64;
    seconds += 365.25 * day * f64::from(value.years());
    seconds += 30.0 * day * f64::from(value.months_of_year());
    seconds + day * f64::from(value.days)
}

/// Returns an interval without its parts below a field.
fn truncated_interval(field: TimeField, value: Interval) -> Result<Interval, ExpressionError> {
    let months = |unit: i32| Interval {
        months: value.months - value.months % unit,
        ..Interval::default()
    };
    Ok(match field {
        TimeField::Millennium => months(12_000),
        TimeField::Century => months(1200),
        TimeField::Decade => months(120),
        TimeField::Year => months(12),
        TimeField::Quarter => months(3),
        TimeField::Month => months(1),
        TimeField::Day => Interval { micros: 0, ..value },
        field => {
            let unit = field.clock_us().ok_or(ExpressionError::FieldOfOtherType)?;
            Interval {
                micros: value.micros - value.micros % unit,
                ..value
            }
        }
    })
}

/// Returns microseconds as a numeric with so many digits after the point, of which the last one
/// stands for a microsecond.
fn micros_as(micros: i128, digits: u32) -> Result<Value, ExpressionError> {
    let sign = if micros < 0 { "-" } else { "" };
    let unit = 10_u128.pow(digits);
    let (size, width) = (micros.unsigned_abs(), digits as usize);
    let (whole, fraction) = (size / unit, size % unit);
    decimal(&alloc::format!("{sign}{whole}.{fraction:0width$}"))
}

/// Returns a field of a day.
fn of_date(field: TimeField, days: i64) -> Result<Value, ExpressionError> {
    let (year, month, day) = civil_from_days(days);
    let january = |year| days_from_civil(year, 1, 1).expect("each year has it");
    // The ISO week belongs to the year of its Thursday.
    let thursday = days - iso_weekday(days) + 4;
    let (iso_year, _, _) = civil_from_days(thursday);
    // There is no year 0.
    let shown = |year: i64| if year > 0 { year } else { year - 1 };
    whole(match field {
        TimeField::Day => day,
        TimeField::Week => (thursday - january(iso_year)) / 7 + 1,
        TimeField::Month => month,
        TimeField::Quarter => (month - 1) / 3 + 1,
        TimeField::Year => shown(year),
        TimeField::IsoYear => shown(iso_year),
        TimeField::Decade => decade(year),
        TimeField::Century => century(year),
        TimeField::Millennium => millennium(year),
        TimeField::DayOfWeek => iso_weekday(days) % 7,
        TimeField::IsoDayOfWeek => iso_weekday(days),
        TimeField::DayOfYear => days - january(year) + 1,
        TimeField::Epoch => days * (DAY_US / SECOND_US),
        _ => return Err(ExpressionError::UnknownField),
    })
}

/// Returns the day of the week, from 1 for Monday to 7.
fn iso_weekday(days: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    (days + 3).rem_euclid(7) + 1
}

fn decade(year: i64) -> i64 {
    match year {
        0.. => year / 10,
        _ => -((8 - (year - 1)) / 10),
    }
}

fn century(year: i64) -> i64 {
    match year {
        1.. => (year + 99) / 100,
        _ => -((99 - (year - 1)) / 100),
    }
}

fn millennium(year: i64) -> i64 {
    match year {
        1.. => (year + 999) / 1000,
        _ => -((999 - (year - 1)) / 1000),
    }
}

fn whole(number: i64) -> Result<Value, ExpressionError> {
    Ok(Value::Numeric(Numeric::from(number)))
}

fn decimal(text: &str) -> Result<Value, ExpressionError> {
    Ok(Value::Numeric(Numeric::parse(text)?))
}
